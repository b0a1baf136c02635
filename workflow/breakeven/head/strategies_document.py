"""``python -m breakeven.head.strategies_document``: docs/strategies.md, from what strategies say of themselves.

With ``--table`` the equivalence table is taken from a run of `snakemake equivalence`; without, it stays as it is.
"""

import argparse
import ast
import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from breakeven.head.equivalence import planned
from breakeven.metrics.equivalence import KEY, key
from breakeven.schema.catalog import WORKLOADS
from breakeven.schema.checks import CONTROL_DIFFERENCE, UPDATES, Row, rows
from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text
from breakeven.schema.strategies import FOLDER, known_strategies, strategy_meta
from breakeven.schema.strategy import KINDS, Kind, Need, StrategyMeta

DOCUMENT = Path("docs/strategies.md")

#: What of the work a kind of strategy splits.
SPLITS: dict[Kind, str] = {
    "none": "nothing",
    "data": "the samples of a batch",
    "context": "the tokens of each sample",
    "tensor": "each layer",
    "pipeline": "the model, between its layers",
}

NEEDS: dict[Need, str] = {
    "tensor_plan": "how its layers can be cut",
    "sequence_plan": "which of its layers work on any part of the tokens",
    "pieces": "the modules it is a sequence of",
    "attention": "where its attention can be replaced",
}


def in_order() -> list[StrategyMeta]:
    """By what is split, then by name."""
    metas = [strategy_meta(name) for name in known_strategies()]
    return sorted(metas, key=lambda meta: KINDS.index(meta.kind))


def overview() -> str:
    lines = ["| strategy | splits | axes | runs on | makes products with |", "| --- | --- | --- | --- | --- |"]
    for meta in in_order():
        others = [other.name for other in in_order() if other.kind in meta.combines and meta.kind in other.combines]
        products = ", ".join(f"`{name}`" for name in others) or "none"
        kinds = " and ".join({"cpu": "CPU cores", "cuda": "GPUs"}[kind] for kind in meta.device_kinds)
        axes = ", ".join(f"`{axis}`" for axis in meta.axes) or "none"
        lines.append(f"| [`{meta.name}`](#{meta.name}) | {SPLITS[meta.kind]} | {axes} | {kinds} | {products} |")
    return "\n".join(lines)


def strategies() -> str:
    return "\n\n".join(map(section, in_order()))


def section(meta: StrategyMeta) -> str:
    parts = [f"### {meta.name}", description(meta.name)]
    if meta.max_devices:
        parts.append(f"At most {meta.max_devices} device{'' if meta.max_devices == 1 else 's'}.")
    if meta.needs:
        able = [name for name, family in WORKLOADS.items() if all(need in family.offers for need in meta.needs)]
        what = " and ".join(NEEDS[need] for need in meta.needs)
        parts.append(f"Model families that say {what}: {', '.join(f'`{name}`' for name in able) or 'none'}.")
    if meta.options:
        parts.append("\n".join(_options(meta)))
    if meta.source:
        parts.append(f"Source: <{meta.source}>")
    return "\n\n".join(parts)


def description(name: str) -> str:
    """The docstring of the strategy's file, as paragraphs."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text())) or ""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.replace("``", "`").split("\n\n"))


def _options(meta: StrategyMeta) -> list[str]:
    lines = ["| option | default | may be | means |", "| --- | --- | --- | --- |"]
    for name, option in meta.options.items():
        kind = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[type(option.default)]
        may = " or ".join(f"`{choice}`" for choice in option.choices) or kind
        if option.minimum is not None:
            may += f" from {option.minimum:g}"
        lines.append(f"| `{name}` | `{_word(option.default)}` | {may} | {option.means} |")
    return lines


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def equivalence(table: Sequence[Mapping[str, str]], where: str) -> str:
    """The rows of ``results/equivalence/table.csv`` as Markdown. ``where``: on what they were run."""
    lines = [
        f"On {where}, by `snakemake equivalence`:",
        "",
        f"| {' | '.join(KEY)} | largest difference | allowed | bytes | verdict | note |",
        f"|{' --- |' * (len(KEY) + 5)}",
    ]
    for row in table:
        control = "control=" in row["settings"]
        allowed = f"at least {_number(row['tolerance'])}" if control else _number(row["tolerance"])
        cells = [row[name] for name in KEY]
        cells += [
            _number(row["max_abs_loss_difference"]),
            allowed,
            row["bytes"],
            row["verdict"].replace("_", " "),
            row["note"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(text: str) -> str:
    return f"{float(text):.1e}" if text else ""


def listed(document: str) -> list[tuple[str, ...]]:
    """``KEY`` of every row of the document's equivalence table."""
    found = re.search(r"<!-- equivalence -->(.*?)<!-- end -->", document, flags=re.S)
    lines = [line for line in (found[1] if found else "").splitlines() if line.startswith("| ")]
    return [tuple(cell.strip() for cell in line.split("|")[1 : len(KEY) + 1]) for line in lines[2:]]


def keys(asked: Iterable[Row]) -> list[tuple[str, ...]]:
    """``KEY`` of planned rows, as the table has them."""
    return [key(planned(row)) for row in asked]


def current() -> list[Row]:
    """Every row, on whatever machine: none of it depends on how many devices there are."""
    return rows("cpu", "any", 2)


def numbers() -> str:
    """What the table covers, counted."""
    found = [row for row in current() if not row.spec.control]
    names = list(dict.fromkeys(row.spec.strategy for row in found))
    products = [name for name in names if "*" in name]
    schedules = {row.spec.strategy_options["schedule"] for row in found if "schedule" in row.spec.strategy_options}
    return (
        f"{len(current())} rows: {len(names) - len(products)} strategies and {len(products)} products of them "
        f"({', '.join(f'`{name}`' for name in products)}), {len(schedules | _default_schedule())} pipeline schedules, "
        f"on {max(row.spec.devices for row in found)} devices at most."
    )


def _default_schedule() -> set[str]:
    return {str(meta.options["schedule"].default) for meta in in_order() if "schedule" in meta.options}


def rules() -> str:
    return (
        f"A row passes where each of the first {UPDATES} losses differs from those of `single` with the same samples "
        "by no more than is allowed, and where every rank holds exactly the bytes of parameters, gradients and "
        "optimiser state that the strategy's formula says. Wider than 1e-5 is allowed only with a reason in the note. "
        "Runs that are wrong on purpose (`control`: gradients not exchanged, weights not updated) must differ by "
        f"{CONTROL_DIFFERENCE:g} or more, else the comparison could not catch a wrong one."
    )


PARTS: dict[str, Callable[[], str]] = {
    "overview": overview,
    "strategies": strategies,
    "rules": rules,
    "numbers": numbers,
}


def fill(document: str, table: str | None = None) -> str:
    """The document with each `<!-- part -->` ... `<!-- end -->` made anew; the equivalence table only where given."""
    parts = {name: make() for name, make in PARTS.items()}
    if table is not None:
        parts["equivalence"] = table

    def replace(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{parts[match[1]]}\n<!-- end -->" if match[1] in parts else match[0]

    return re.sub(r"<!-- (\w+) -->.*?<!-- end -->", replace, document, flags=re.S)


def read_table(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise UserError(f"{path}: not readable ({error.strerror}). Make it by `snakemake equivalence`.") from None


@command
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    parser.add_argument("--table", type=Path, help="results/equivalence/table.csv")
    parser.add_argument("--where", default="", help="on what it was run: '2 CPU cores, torch 2.13.0, gloo'")
    args = parser.parse_args()
    table = equivalence(read_table(args.table), args.where) if args.table else None
    write_text(args.document, fill(args.document.read_text(), table))


if __name__ == "__main__":
    main()
