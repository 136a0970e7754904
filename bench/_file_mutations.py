"""Ways in which a valid file is made another one: bytes, words, structure."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

Mutation = Callable[[random.Random, str], str | bytes]

_WORDS = re.compile(r'"[^"\n]*"|[\w.+-]+|[^\w\s]')
_NUMBERS = re.compile(r"-?\b[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
EDGES = (
    *(0, -1, 1, 2, 255, 256, 65_535, 65_536, 65_537, 10**9, 2**20, 2**31 - 1, 2**31, 2**32),
    *(2**53, 2**63 - 1, 2**63, 2**64, -(2**31), -(2**63), 10**40, 0.5, -0.0, 1.0, 1e-9, 1e308),
    *("1e309", "1e999", "-1e999", "5e-324", "1e-400", "NaN", "Infinity", "-Infinity", "inf"),
    *("00", "+1", "0x10", "1_0", "1.", ".5", "1e", "--1", "\u0661", "\uff11", '"1"', "true"),
    *("null", "", "[]", "{}", "[1]", "9" * 60, "9" * 501, "9" * 5_000, "0." + "3" * 5_000),
)
_LEAVES = (None, True, False, 0, -1, 1.5, "", "x", "\u0000", "\ud800", "REDUCE", [], {}, [0], [[]])
_DEPTHS = (8, 13, 16, 17, 100, 1_000, 100_000)
_LAUGHS = '<!DOCTYPE graphml [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
_XML_STARTS = (
    _LAUGHS,
    '<!DOCTYPE graphml SYSTEM "file:///etc/passwd">',
    '<!DOCTYPE graphml [<!ENTITY % all SYSTEM "file:///etc/passwd"> %all;]>',
    "<!DOCTYPE graphml>",
    "<!-- a comment -->",
    "<?what is this?>",
    "<?xml version='1.0'?>",
    "\ufeff",
    " ",
)
_XML_PARTS = (
    *("&a;", "&lt;", "&#0;", "&#65;", "&#xD800;", "&#x1F600;", "<![CDATA[1]]>", "<![CDATA[", "]]>"),
    *("<!-- a -->", "<?a?>", "<node/>", '<node id="n"/>', '<node id="0"/>', "<graph/>", "text"),
    *('<edge source="0" target="1"/>', '<edge source="0" target="0"/>', '<edge source="0"/>'),
    *('<edge source="0" target="99"/>', '<edge source="0" target="1" directed="false"/>'),
    *('<data key="none">1</data>', '<data key="edge_step">1</data>', "<data/>", "<desc>a</desc>"),
    *('<key id="new" for="edge"/>', '<key id="k" for="all" attr.name="step"><default>0</default>'),
    *('<graph edgedefault="directed"/>', '<port name="p"/>', "<hyperedge/>", "<graphml>"),
    *('<a b="1" b="2"/>', '<x:a xmlns:x="y"/>', "<x:a/>", "</graph>", "<", ">", "\x00", "\ud800"),
)
_XML_TAG = re.compile(r"<[^<>]*>")
_XML_ATTRIBUTE = re.compile(r' [\w.]+="[^"]*"')


def flip_bytes(draw: random.Random, text: str) -> bytes:
    data = bytearray(text.encode(errors="surrogatepass"))
    for _ in range(draw.choice((1, 1, 2, 8))):
        if data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def cut_off(draw: random.Random, text: str) -> str:
    return text[: draw.randrange(len(text) + 1)]


def drop_span(draw: random.Random, text: str) -> str:
    start, stop = _span(draw, text)
    return text[:start] + text[stop:]


def double_span(draw: random.Random, text: str) -> str:
    start, stop = _span(draw, text)
    return text[:stop] + text[start:]


def swap_words(draw: random.Random, text: str) -> str:
    """Put one word, mark or number of the text in the place of another one."""
    words = list(_WORDS.finditer(text))
    if not words:
        return text
    old, new = draw.choice(words), draw.choice(words)
    return text[: old.start()] + new[0] + text[old.end() :]


def edge_number(draw: random.Random, text: str) -> str:
    """Make a number another one, seldom seen."""
    numbers = list(_NUMBERS.finditer(text))
    if not numbers:
        return text
    old = draw.choice(numbers)
    near = f"{float(old[0]) + draw.choice((-1, 1)):g}"
    return text[: old.start()] + str(draw.choice((near, near, *EDGES))) + text[old.end() :]


def other_encoding(draw: random.Random, text: str) -> bytes:
    """Write the text in another encoding, or with what belongs to one."""
    kind = draw.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig", "utf-7", "cp037"))
    data = text.encode(kind, errors="replace")
    return draw.choice((data, b"\xef\xbb\xbf" + data, b"\xff" + data, data + b"\x00"))


def edit_json(draw: random.Random, text: str) -> str:
    """Change the structure: drop, double, rename, replace, wrap or swap what is in it."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return text
    places = list(_places(content))
    if not places:
        return text
    (holder, key), (other, at) = draw.choice(places), draw.choice(places)
    how = draw.randrange(7)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, list):
        holder.insert(draw.randrange(len(holder) + 1), holder[key])
    elif how == 1:
        holder[draw.choice(("", "Schema", f"{key} ", "x" * 1_000))] = holder[key]
    elif how == 2:
        holder[key] = draw.choice(_LEAVES)
    elif how == 3:
        holder[key] = draw.choice(([holder[key]], {"a": holder[key]}, [holder[key]] * 2))
    elif how == 4:
        holder[key], other[at] = json.loads(json.dumps([other[at], holder[key]]))
    elif how == 5:
        holder[key] = [draw.choice((0, 1, [0, 1, 1, 1]))] * draw.choice((1, 10, 1_000, 50_000))
    else:
        name = draw.choice(("schema", "links", "rows", "num_ranks", "a"))
        again = json.dumps({name: holder[key]})[1:-1]
        return text.replace("{", f"{{{again}, ", 1)
    return json.dumps(content)


def edit_xml(draw: random.Random, text: str) -> str:
    """Change the structure: starts, elements, attributes and their order."""
    tags = list(_XML_TAG.finditer(text))
    if not tags:
        return text
    tag, other = draw.choice(tags), draw.choice(tags)
    how = draw.randrange(6)
    if how == 0:
        return draw.choice((draw.choice(_XML_STARTS) + text, _after_first(text, draw)))
    if how == 1:
        return text[: tag.end()] + draw.choice(_XML_PARTS) + text[tag.end() :]
    if how == 2:
        return text[: tag.start()] + text[tag.end() :]
    if how == 3:
        return text[: tag.start()] + other[0] + text[tag.end() :]
    attributes = list(_XML_ATTRIBUTE.finditer(text))
    if not attributes:
        return text
    old, new = draw.choice(attributes), draw.choice(attributes)[0]
    if how == 4:
        new = draw.choice(("", old[0] + old[0], f' x="{"y" * 10_000}"', ' directed="false"'))
    return text[: old.start()] + new + text[old.end() :]


def nest(draw: random.Random, text: str) -> str:
    at, depth = draw.randrange(len(text) + 1), draw.choice(_DEPTHS)
    start, stop = draw.choice((("[", "]"), ('{"a":', "}"), ("<a>", "</a>"), ("<desc>", "</desc>")))
    if draw.randrange(2):
        numbers = list(_NUMBERS.finditer(text))
        at = draw.choice(numbers).start() if numbers else at
    return text[:at] + start * depth + stop * draw.choice((0, depth)) + text[at:]


MUTATIONS: dict[str, Mutation] = {
    "bytes flipped": flip_bytes,
    "cut off": cut_off,
    "a part dropped": drop_span,
    "a part doubled": double_span,
    "words swapped": swap_words,
    "numbers at an edge": edge_number,
    "another encoding": other_encoding,
    "structure": edit_json,
    "nesting": nest,
}


def mutated(draw: random.Random, text: str, *, is_xml: bool) -> tuple[str, bytes]:
    """One mutation, now and then with others behind it: the first one's name, and the file."""
    first = ""
    data: str | bytes = text
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        name = draw.choice(list(MUTATIONS))
        first = first or name
        mutate = edit_xml if is_xml and name == "structure" else MUTATIONS[name]
        data = mutate(draw, data if isinstance(data, str) else data.decode(errors="replace"))
    return first, data if isinstance(data, bytes) else data.encode(errors="surrogatepass")


def _span(draw: random.Random, text: str) -> tuple[int, int]:
    start = draw.randrange(len(text) + 1)
    return start, min(len(text), start + draw.choice((1, 3, 10, 50, 500)))


def _after_first(text: str, draw: random.Random) -> str:
    head, end, rest = text.partition("?>")
    return head + end + draw.choice(_XML_STARTS) + rest


def _places(content: Any) -> Any:
    """Every list or object with every index or key in it."""
    if isinstance(content, list | dict):
        for key in range(len(content)) if isinstance(content, list) else content:
            yield content, key
            yield from _places(content[key])
