"""What a run of a study has where no sweep says otherwise: the study's own defaults over the program's."""

from breakeven.config.machine import Machine
from breakeven.config.models import Data, MeasuredStudy, RunSettings
from breakeven.schema.catalog import WORKLOADS
from breakeven.schema.spec import Json


def usual_settings(study: MeasuredStudy, machine: Machine) -> Json:
    """By the user's names, as a spec holds them. A key is missing where there is no one such value, such as the device
    count."""
    fields = RunSettings.model_fields
    values = {name: field.get_default(call_default_factory=True) for name, field in fields.items()} | study.defaults
    values["learning_rate"] = float(values["learning_rate"])  # may be a whole number in YAML
    meta = WORKLOADS.get(study.workload.model)
    for name in ("pin_memory", "non_blocking"):
        if values[name] is None:
            values[name] = machine.device_kind == "cuda"
    if values["data"] is None:
        values["data"] = _data_name(study.workload.data) if study.workload.data else meta.data if meta else None
    if values["image_size"] is None:
        values["image_size"] = study.workload.image_size or (32 if meta else None)
    open_ended = ("devices", "global_batch", "batch_per_device", "epochs", "data", "image_size")
    return {
        name: value
        for name, value in values.items()
        if name != "devices" and (value is not None or name not in open_ended)
    }


def _data_name(data: Data) -> str:
    return data.name or ("jsonl" if data.file else "folder" if data.folder else "hub")
