"""What the free keys of a workload may hold, as data: pydantic's models know their names only in part."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf
from typing import Annotated, Any

from pydantic import AfterValidator

from breakeven.schema.spec import Json


@dataclass(frozen=True, slots=True)
class Kind:
    """``means`` ends the sentence "it must be ..."."""

    means: str
    holds: Callable[[Any], bool]


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # Python counts True as a 1


def _number(value: Any) -> bool:
    return _whole(value) or isinstance(value, float)


def _wholes(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_whole(item) and item >= 1 for item in value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) and item for item in value)


# Comparisons with infinity refuse NaN too.
WHOLE = Kind("a whole number of at least 1", lambda value: _whole(value) and value >= 1)
POSITIVE = Kind("a number above 0", lambda value: _number(value) and 0 < value < inf)
FRACTION = Kind("a number from 0 to below 1", lambda value: _number(value) and 0 <= value < 1)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
TEXT = Kind("text", lambda value: isinstance(value, str) and bool(value))
TEXTS = Kind("text or a list of texts", lambda value: TEXT.holds(value) or _texts(value))
WHOLES = Kind("a list of whole numbers of at least 1", _wholes)
NORM = Kind("'batch' or 'group'", lambda value: value in ("batch", "group"))
LAYER = Kind("'basic' or 'bottleneck'", lambda value: value in ("basic", "bottleneck"))
KEYS = Kind("keys with values", lambda value: isinstance(value, dict))

Rules = tuple[tuple[str, Kind], ...]

#: ``workload.config`` of a family: the first pattern that fits a key says what it holds.
CONFIG: Rules = (
    ("*_size", WHOLE),
    ("hidden_sizes", WHOLES),
    ("depths", WHOLES),
    ("layer_type", LAYER),
    ("num_*", WHOLE),
    ("head_dim", WHOLE),
    ("min_depth", WHOLE),
    ("depth_divisible_by", WHOLE),
    ("output_stride", WHOLE),
    ("max_position_embeddings", WHOLE),
    ("depth_multiplier", POSITIVE),
    ("expand_ratio", POSITIVE),
    ("*_norm_eps", POSITIVE),
    ("initializer_range", POSITIVE),
    ("*_dropout_prob", FRACTION),
    ("attention_dropout", FRACTION),
    ("attention_bias", FLAG),
    ("mlp_bias", FLAG),
    ("qkv_bias", FLAG),
    ("downsample_in_*", FLAG),
    ("tie_word_embeddings", FLAG),
    ("first_layer_is_expansion", FLAG),
    ("finegrained_output", FLAG),
    ("tf_padding", FLAG),
    ("norm", NORM),
    ("hidden_act", TEXT),
    ("rope_parameters", KEYS),
)

#: ``workload.technique_options``; a test compares the keys with the catalogue's.
TECHNIQUE_OPTIONS: Rules = (("rank", WHOLE), ("alpha", POSITIVE), ("target_modules", TEXTS))


def shown(value: Any) -> str:
    """A value as a message shows it: not a page of it."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def kind_of(key: str, rules: Rules) -> Kind | None:
    return next((kind for pattern, kind in rules if fnmatchcase(key, pattern)), None)


def faults(values: Json, rules: Rules) -> Iterator[tuple[str, str]]:
    """Each key whose value is not what the rules say, and what is wrong with it."""
    for key, value in values.items():
        kind = kind_of(key, rules)
        if kind and not kind.holds(value):
            yield key, f"must be {kind.means}; found {shown(value)}.{_hint(kind, value)}"


def _hint(kind: Kind, value: Any) -> str:
    if not isinstance(value, str) or kind not in (WHOLE, POSITIVE, FRACTION):
        return ""
    try:
        float(value)
    except ValueError:
        return ""
    # YAML 1.1 takes 1e-6 for text: its numbers have a point.
    return " That is text: leave out the quotes, and write a number such as 1e-6 as 1.0e-6."


def json_only(values: Json) -> Json:
    """A value that is no JSON has no place in a run's identity: YAML knows dates, sets, bytes and not-a-number."""
    for path, value in _not_json(values, ()):
        raise ValueError(
            f"{'.'.join(path)} holds {shown(value)}; use text, finite numbers, true, false, null, lists and keys (text)"
        )
    return values


def _not_json(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield from _not_json(item, (*path, key))
            else:
                yield (*path, str(key)), key
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _not_json(item, (*path, str(i)))
    elif isinstance(value, float):
        if not -inf < value < inf:
            yield path, value
    elif not (value is None or isinstance(value, str | int | bool)):
        yield path, value


#: Keys with JSON values.
JsonKeys = Annotated[Json, AfterValidator(json_only)]
