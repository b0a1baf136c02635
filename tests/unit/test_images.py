"""Images of the user's own stay files; what is no data set is refused with the file or folder that is wrong."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from breakeven.datasets.__main__ import main
from breakeven.datasets.batches import read
from breakeven.datasets.fetch_images import main as fetch
from breakeven.schema.catalog import DATASETS
from breakeven.schema.errors import UserError
from breakeven.schema.imagefolder import list_images
from breakeven.schema.spec import DataSource, Workload, data_id, images_id

SIZE = 12


def write(file: Path, shade: int = 0, *, size: tuple[int, int] = (20, 16), mode: str = "RGB") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, shade if mode == "L" else (shade, shade, shade)).save(file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of ten and five, grey and coloured, of several formats and sizes."""
    for i in range(10):
        write(tmp_path / "own" / "cat" / f"{i}.png", 10 * i, mode="L" if i % 2 else "RGB")
    for i in range(5):
        write(tmp_path / "own" / "dog" / "deeper" / f"{i}.JPG", 200 + i, size=(9, 30 + i))
    (tmp_path / "own" / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "own" / ".cache").mkdir()
    return tmp_path / "own"


def workload(folder: Path, **data) -> Workload:
    return Workload(
        model="resnet", data=DataSource(name="folder", sha256=list_images(folder).sha256, **data), image_size=SIZE
    )


def prepare(of: Workload, folder: Path, output: Path) -> int:
    text = json.dumps(dataclasses.asdict(of))
    return main(["--workload", text, "--file", str(folder), "--output", str(output)])


def test_a_fifth_of_each_class_is_held_out_and_every_image_is_in_one_split(folder, tmp_path):
    own = workload(folder)
    assert prepare(own, folder, tmp_path / "d.npz") == 0
    data = read(tmp_path / "d.npz", data_id=data_id(own), sequence_length=None, image_size=SIZE)
    assert (data.samples, data.test.samples, data.classes) == (12, 3, 2)
    assert list_images(folder).training_samples == 12
    names = [split.images.path(i) for split in (data, data.test) for i in range(split.samples)]
    assert sorted(names) == sorted(str(folder / file.name) for file in list_images(folder).train)
    assert np.bincount(data.labels).tolist() == [8, 4]


def test_images_are_decoded_when_asked_for_square_and_of_three_channels(folder, tmp_path):
    own = workload(folder)
    prepare(own, folder, tmp_path / "d.npz")
    data = read(tmp_path / "d.npz", data_id=data_id(own), sequence_length=None, image_size=SIZE)
    taken = data.take(np.arange(data.samples))
    assert taken["images"].shape == (12, SIZE, SIZE, 3)
    for image, index in zip(taken["images"], range(12), strict=True):
        path = Path(data.images.path(index))
        shade = 10 * int(path.stem) if data.labels[index] == 0 else 200 + int(path.stem)
        assert abs(int(image.mean()) - shade) <= 2  # JPEG rounds
    assert (tmp_path / "d.npz").stat().st_size < 4000


def test_a_split_of_ones_own_is_kept(tmp_path):
    for split, count in (("train", 4), ("val", 2)):
        for name in ("cat", "dog"):
            for i in range(count):
                write(tmp_path / "own" / split / name / f"{i}.png", i)
    (tmp_path / "own" / "test").mkdir()  # as ImageNet has it: without classes
    found = list_images(tmp_path / "own")
    assert (found.classes, len(found.train), len(found.test)) == (("cat", "dog"), 8, 4)
    assert found.training_samples == 8


def test_the_number_of_images_may_be_bounded(folder, tmp_path):
    own = workload(folder, samples=2)
    prepare(own, folder, tmp_path / "d.npz")
    data = read(tmp_path / "d.npz", data_id=data_id(own), sequence_length=None, image_size=SIZE)
    assert (data.samples, data.test.samples, data.classes) == (2, 2, 2)


def test_another_name_or_size_of_a_file_is_another_run(folder):
    before = data_id(workload(folder))
    assert data_id(workload(folder)) == before
    write(folder / "cat" / "new.png")
    added = data_id(workload(folder))
    write(folder / "cat" / "new.png", size=(40, 40))
    assert len({before, added, data_id(workload(folder))}) == 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda own: [file.unlink() for file in (own / "cat").glob("*.png")], "own/cat: holds no image"),
        (lambda own: (own / "dog").rename(own / ".dog"), r"own: holds one class \('cat'\)"),
        (lambda own: own.rename(own.with_name("elsewhere")), "own: no such folder"),
        (lambda own: (own / "dog").rename(own / "train"), r"own: has train/ but no test/, val/, validation/"),
    ],
)
def test_a_folder_that_is_no_data_set_is_refused(folder, change, says):
    change(folder)
    with pytest.raises(UserError, match=says):
        list_images(folder)


def test_a_class_that_is_only_held_out_is_refused(tmp_path):
    for name in ("train/cat", "train/dog", "test/cat", "test/cow"):
        write(tmp_path / name / "0.png")
    with pytest.raises(UserError, match=r"class 'cow' is in test/ but not in train/"):
        list_images(tmp_path)


def test_a_class_of_one_image_cannot_be_split_and_is_refused_by_its_name_alone(folder):
    write(folder / "cow" / "0.png")
    with pytest.raises(UserError, match=r"own/cow/0\.png: the only image of its class"):
        list_images(folder)


def test_a_file_that_is_no_image_is_named_before_anything_runs(folder, tmp_path, capsys):
    (folder / "cat" / "3.png").write_bytes(b"no image at all")
    assert prepare(workload(folder), folder, tmp_path / "d.npz") == 2
    message = (
        f"{folder}/cat/3.png: not readable as an image (of no known format). Mend it or take it away, and plan again."
    )
    assert capsys.readouterr().err == f"{message}\n"


def test_an_image_cut_short_is_named_when_it_is_decoded(folder, tmp_path):
    noise = Image.fromarray(np.random.RandomState(0).randint(0, 256, (80, 80), dtype=np.uint8))
    for i in range(5):
        file = folder / "dog" / "deeper" / f"{i}.JPG"
        noise.save(file)
        file.write_bytes(file.read_bytes()[:-2000])
    own = workload(folder)
    assert prepare(own, folder, tmp_path / "d.npz") == 0
    data = read(tmp_path / "d.npz", data_id=data_id(own), sequence_length=None, image_size=SIZE)
    with pytest.raises(UserError, match=r"dog/deeper/\d.JPG: not readable as an image \(.*truncated"):
        data.take(np.flatnonzero(data.labels == 1))


def test_a_folder_that_has_changed_or_gone_since_is_refused(folder, tmp_path, capsys):
    own = workload(folder)
    prepare(own, folder, tmp_path / "d.npz")
    write(folder / "cat" / "new.png")
    assert prepare(own, folder, tmp_path / "e.npz") == 2
    assert "Plan again to use it as it is" in capsys.readouterr().err
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(UserError, match="own, which is gone"):
        read(tmp_path / "d.npz", data_id=data_id(own), sequence_length=None, image_size=SIZE)


def large(size: int) -> Workload:
    return Workload(model="resnet", data=DataSource(name="digits-large"), image_size=size)


def test_digits_drawn_at_the_image_size_are_of_that_size_and_other_data_at_another(tmp_path):
    assert data_id(large(24)) != data_id(large(25))
    digits = dataclasses.replace(large(24), data=DataSource(name="digits"))
    assert data_id(digits) == data_id(dataclasses.replace(digits, image_size=25))  # resized by whoever loads them
    for output in (tmp_path / "a.npz", tmp_path / "b.npz"):
        assert main(["--workload", json.dumps(dataclasses.asdict(large(24))), "--output", str(output)]) == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    data = read(tmp_path / "a.npz", data_id=data_id(large(24)), sequence_length=None)
    assert (data.images.shape, data.test.images.shape, data.classes) == ((640, 24, 24), (128, 24, 24), 10)
    assert data.images.min() < 40 < 215 < data.images.max()
    assert data.samples == DATASETS["digits-large"].samples
    # 500 x 500 take 768 images of 250 kB
    assert (640 + 128) * 500 * 500 < 200e6


HUB = {
    "name": "hub",
    "hub": "",
    "revision": "0" * 40,
    "image": "img",
    "label": "fine",
    "train": "train",
    "test": "test",
}


@pytest.fixture
def hub(tmp_path, monkeypatch) -> dict[str, str]:
    """A data set as the hub has them, on disk: a parquet file per split, images and class names in columns."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "SLEEP_TIME_ON_THREADS_SHUTDOWN", 0)
    features = datasets.Features(
        {"img": datasets.Image(), "fine": datasets.ClassLabel(names=["cat", "a dog"]), "word": datasets.Value("string")}
    )
    for split, count in (("train", 6), ("test", 4)):
        images = [Image.new("L", (9, 9), 20 * i) for i in range(count)]
        rows = {
            "img": images,
            "fine": [i % 2 for i in range(count)],
            "word": ["B" if i % 2 else "a" for i in range(count)],
        }
        (tmp_path / "hub").mkdir(exist_ok=True)
        datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "hub" / f"{split}-00000.parquet")
    return {**HUB, "hub": str(tmp_path / "hub")}


def fetched(source: dict[str, str], output: Path) -> int:
    return fetch(["--data", json.dumps(source), "--output", str(output)])


def test_a_hubs_data_set_becomes_a_folder_of_its_images_with_the_classes_in_its_order(hub, tmp_path):
    assert fetched(hub, tmp_path / "out") == 0
    found = list_images(tmp_path / "out")
    assert (found.classes, len(found.train), len(found.test)) == (("0-cat", "1-a-dog"), 6, 4)
    own = Workload(model="vit", data=DataSource(**hub), image_size=SIZE)
    assert prepare(own, tmp_path / "out", tmp_path / "d.npz") == 0
    data = read(tmp_path / "d.npz", data_id=data_id(own), sequence_length=None, image_size=SIZE)
    taken = data.take(np.arange(6))
    assert sorted(zip(taken["images"][:, 0, 0, 0].tolist(), taken["labels"].tolist(), strict=True)) == [
        (20 * i, i % 2) for i in range(6)
    ]


def test_some_of_a_hubs_images_are_fetched_where_no_more_are_wanted(hub, tmp_path):
    assert fetched({**hub, "samples": 3}, tmp_path / "out") == 0
    found = list_images(tmp_path / "out")
    assert len(found.train) == 3
    assert 1 <= len(found.test) <= 3
    sources = [DataSource(**hub), DataSource(**{**hub, "samples": 3})]
    assert len({images_id(source) for source in sources}) == 2


def test_labels_without_names_are_classes_by_their_value(hub, tmp_path):
    assert fetched({**hub, "label": "word"}, tmp_path / "out") == 0
    assert [name.split("-")[0] for name in list_images(tmp_path / "out").classes] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"image": "image"}, "no column 'image'. Set workload.data.image to one of img, fine, word."),
        ({"label": "labels"}, "no column 'labels'. Set workload.data.label to one of img, fine, word."),
        ({"image": "word"}, "column 'word' holds no images (Value)."),
        ({"test": "validation"}, "Should be one of ['train', 'test']"),
    ],
)
def test_what_a_hubs_data_set_lacks_is_said_with_what_it_has(hub, tmp_path, capsys, change, says):
    assert fetched({**hub, **change}, tmp_path / "out") == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
