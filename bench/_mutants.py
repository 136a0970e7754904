"""Mutants: a file with one operator, constant, condition or statement changed."""

import ast
import hashlib
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

__all__ = ["Mutant", "mutants_of", "sample"]

_COMPARE = {
    **{ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")},
    **{ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in")},
    **{ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is")},
}
_BINARY = {
    **{ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.FloorDiv: ("//", "*")},
    **{ast.Div: ("/", "*"), ast.Mod: ("%", "//"), ast.Pow: ("**", "*"), ast.LShift: ("<<", ">>")},
    **{ast.RShift: (">>", "<<"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&")},
    ast.BitXor: ("^", "|"),
}
_UNARY = {ast.Not: "not", ast.Invert: "~", ast.USub: "-"}
_NAMES = {"min": "max", "any": "all", "minimum": "maximum", "argmin": "argmax", "floor": "ceil"}
_NAMES |= {new: old for old, new in _NAMES.items()}
_SIMPLE = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)
_WIDTHS = {"In", "Out", "Signal", "unsigned"}
_NO_COMMENT = re.compile(rb"//.*|^#.*", re.M)
# C++ as clang-format writes it: an operator of two operands has a blank on either side.
_TEXT = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
_TEXT |= {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "&": "|", "|": "&", "<<": ">>"}
_TEXT |= {">>": "<<", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|="}
_OPERATOR = re.compile(rb"(?<= )(?:%s)(?= )" % b"|".join(re.escape(op).encode() for op in _TEXT))
_WORD = re.compile(rb"\btrue\b|\bfalse\b|(?<=std::)m(?:in|ax)\b|\+\+|--|!(?=[\w(])")
_WORDS = {"true": "false", "false": "true", "min": "max", "max": "min"}
_WORDS |= {"++": "--", "--": "++", "!": ""}
_NUMBER = re.compile(rb"(?<![\w.])\d+(?![\w.])")
_CONDITION = re.compile(rb"\b(?:if|while) \(")
_PLACE = rb"[a-z]\w*(?:(?:\.|->)\w+|\[[^\]=]*\])*"
_STATEMENT = re.compile(rb"(?<=[;{}):]\n) *(%s(?: [|&+-]?= [^;]*|\([^;]*\));)$" % _PLACE, re.M)
_INSIDE = re.compile(
    rb"\b(?:struct|class) (\w+)|(?<!else )\b(?!(?:if|for|while|switch)\b)(\w+)\([^;=]*\{"
)


@dataclass(frozen=True, order=True)
class Mutant:
    """A place of a file and what takes its place."""

    module: str  # path of the file, from the root of the repository
    line: int  # where it begins, from 1
    function: str  # the innermost class or function, with those around that; empty at the top
    old: str  # the lines that it changes, with single spaces
    new: str
    start: int  # its bytes in the file
    end: int
    text: str  # what takes their place
    nth: int = 1  # of those that read the same in this function

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What it is, wherever in its file its function stands."""
        return self.module, self.function, self.old, self.new, self.nth

    @property
    def name(self) -> str:
        return _digest(*map(str, self.key))[:8]

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def mutants_of(module: str, source: bytes) -> list[Mutant]:
    """Every mutant of a file with this path and content, in the order of its lines.

    Not changed are text, annotations, decorators and what only asserts, nor is a signal made wider.
    What is not Python is C++, whose text is changed.
    """
    found: dict[tuple[str, int, str], Mutant] = {}
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    if module.endswith(".py"):
        named = _without_comments(source, starts)
        edits = _Finder(source, starts).edits(ast.parse(source))
    else:
        named = _NO_COMMENT.sub(lambda found: b" " * len(found[0]), source)
        edits = _edits_of_text(named)
    for function, start, end, text in edits:
        first = max(n for n, at in enumerate(starts) if at <= start)
        last = min(n for n, at in enumerate(starts) if at >= end)
        begin, stop = starts[first], starts[last]
        old = b" ".join(named[begin:stop].split()).decode()
        changed = named[begin:start] + text.encode() + named[end:stop]
        new = b" ".join(changed.split()).decode()
        mutant = Mutant(module, first + 1, function, old, new, start, end, text)
        if old != new:
            found.setdefault((old, first, new), mutant)
    alike: Counter[tuple[str, str, str]] = Counter()
    numbered = []
    for mutant in sorted(found.values()):
        alike[mutant.function, mutant.old, mutant.new] += 1
        number = alike[mutant.function, mutant.old, mutant.new]
        numbered.append(replace(mutant, nth=number))
    return numbered


def _without_comments(source: bytes, starts: list[int]) -> bytes:
    """The source with blanks for comments: a mutant is named by code, whatever is said about it."""
    found = bytearray(source)
    lines = source.decode().splitlines(keepends=True)
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            begin = starts[row - 1] + len(lines[row - 1][:column].encode())
            length = len(token.string.encode())
            found[begin : begin + length] = b" " * length
    return bytes(found)


def _edits_of_text(source: bytes) -> Iterator[tuple[str, int, int, str]]:
    """As `_Finder.edits`, of C++ without comments; each compiles, as long as it is laid out so."""
    for start, end, text in _places_of_text(source):
        around = [*_INSIDE.finditer(source[:start])]
        names = [[found[group].decode() for found in around if found[group]] for group in (1, 2)]
        yield ".".join(each[-1] for each in names if each), start, end, text


def _places_of_text(source: bytes) -> Iterator[tuple[int, int, str]]:
    for pattern, others in ((_OPERATOR, _TEXT), (_WORD, _WORDS)):
        for found in pattern.finditer(source):
            yield *found.span(), others[found[0].decode()]
    for found in _NUMBER.finditer(source):
        yield from ((*found.span(), text) for text in _other_constants(int(found[0])))
    for found in _STATEMENT.finditer(source):
        yield *found.span(1), ";"
    for found in _CONDITION.finditer(source):
        end = found.end()
        while (test := source[found.end() : end]).count(b"(") >= test.count(b")"):
            end += 1
        yield found.end(), end - 1, f"!({test[:-1].decode()})"


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many mutants, each of another line.

    Lines are drawn with equal chances, then one mutant of each. What is drawn follows from the
    seed and each line's own text: a change elsewhere draws hardly others.
    """
    lines: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        lines[mutant.module, mutant.line].append(mutant)
    alike: Counter[tuple[str, ...]] = Counter()
    ranked = []
    for of_line in lines.values():
        text = (str(seed), of_line[0].module, of_line[0].function, of_line[0].old)
        alike[text] += 1
        chosen = min(of_line, key=lambda mutant: _digest(str(seed), mutant.name))
        ranked.append((_digest(*text, str(alike[text])), chosen))
    return sorted(mutant for _, mutant in sorted(ranked)[:count])


class _Finder:
    """Goes through a file's tree and finds all places to change."""

    def __init__(self, source: bytes, starts: list[int]) -> None:
        self._source, self._starts = source, starts

    def edits(self, node: ast.AST, function: str = "") -> Iterator[tuple[str, int, int, str]]:
        """The function around each place, its first byte, its end and what takes its place."""
        inner = function
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{function}.{node.name}".lstrip(".")
        yield from ((function, *edit) for edit in self._of(node))
        for child in _children(node):
            yield from self.edits(child, inner)

    def _of(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
                for op, left, right in zip(node.ops, operands, operands[1:], strict=False):
                    yield from self._between(left, right, *_COMPARE[type(op)])
            case ast.BinOp() if type(node.op) in _BINARY:
                yield from self._between(node.left, node.right, *_BINARY[type(node.op)])
                if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
                    for operand in (node.left, node.right):
                        yield *self._span(node), f"({self._text(*self._span(operand))})"
            case ast.BoolOp():
                words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from self._between(left, right, *words)
                texts = [f"({self._text(*self._span(value))})" for value in node.values]
                for number in range(len(texts)):
                    others = texts[:number] + texts[number + 1 :]
                    yield *self._span(node), f"({f' {words[0]} '.join(others)})"
            case ast.UnaryOp() if type(node.op) in _UNARY:
                start, inside = self._span(node)[0], self._span(node.operand)[0]
                word = _UNARY[type(node.op)]
                yield start, inside, self._text(start, inside).removeprefix(word).lstrip()
            case ast.Constant():
                yield from ((*self._span(node), text) for text in _other_constants(node.value))
            case ast.Call():
                yield from self._of_call(node)
            case ast.If() | ast.While() | ast.IfExp():
                start, end = self._span(node.test)
                yield start, end, f"not ({self._text(start, end)})"
            case ast.comprehension():
                for test in node.ifs:
                    start, end = self._span(test)
                    yield start, end, f"not ({self._text(start, end)})"
            case ast.Slice():
                for bound in (node.lower, node.upper):
                    if bound is not None and not isinstance(bound, (ast.Constant, ast.UnaryOp)):
                        start, end = self._span(bound)
                        yield start, end, f"({self._text(start, end)}) + 1"
            case ast.stmt():
                yield from self._of_statement(node)

    def _of_call(self, node: ast.Call) -> Iterator[tuple[int, int, str]]:
        name = _called(node)
        end = self._span(node.func)[1]
        if name in _NAMES:
            yield end - len(name), end, _NAMES[name]
        if name in ("If", "Elif") and isinstance(node.func, ast.Attribute):
            start, end = self._span(node.args[0])
            yield start, end, f"({self._text(start, end)}) == 0"
        if name in _WIDTHS:
            for width in filter(_is_number, node.args):
                if width.value > 1:
                    yield *self._span(width), str(width.value - 1)
        if name == "Mux" and len(node.args) == 3:
            (start, middle), (again, end) = (self._span(arm) for arm in node.args[1:])
            parts = (self._text(again, end), self._text(middle, again), self._text(start, middle))
            yield start, end, "".join(parts)

    def _of_statement(self, node: ast.stmt) -> Iterator[tuple[int, int, str]]:
        to_member = isinstance(node, ast.Assign) and isinstance(
            node.targets[0], (ast.Attribute, ast.Subscript)
        )
        a_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if isinstance(node, _SIMPLE) or to_member or a_call:
            yield *self._span(node), "pass"
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.List):
            bracket = self._span(node.value)[1]
            elements = [self._span(element) for element in node.value.elts] + [(bracket, bracket)]
            for (start, end), (after, _) in pairwise(elements):
                comma = self._text(end, after).find(",")
                yield start, end + 1 + comma, ""

    def _between(
        self, left: ast.expr, right: ast.expr, old: str, new: str
    ) -> Iterator[tuple[int, int, str]]:
        start, end = self._span(left)[1], self._span(right)[0]
        between = self._text(start, end)
        if "#" not in between and between.count(old) == 1:
            at = start + between.index(old)
            yield at, at + len(old), new

    def _span(self, node: ast.AST) -> tuple[int, int]:
        begin = self._starts[node.lineno - 1] + node.col_offset
        return begin, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, start: int, end: int) -> str:
        return self._source[start:end].decode()


def _called(node: ast.Call) -> str:
    """The name that is called, of whatever it is a member."""
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _other_constants(value: object) -> list[str]:
    if isinstance(value, bool):
        return [str(not value)]
    if isinstance(value, int):
        return [str(value + 1), str(value - 1)]
    return [repr(2 * value)] if isinstance(value, float) else []


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What is below, without annotations, decorators, assertions, text and wider signals."""
    skipped: list[ast.AST] = []
    for name in ("annotation", "returns", "decorator_list"):
        value = getattr(node, name, None)
        skipped += value if isinstance(value, list) else [value] if value is not None else []
    if isinstance(node, ast.Call) and _called(node) in _WIDTHS:
        skipped += filter(_is_number, node.args)
    if isinstance(node, ast.Call) and _called(node) == "zip":
        skipped += node.keywords
    for child in ast.iter_child_nodes(node):
        if child not in skipped and not isinstance(child, (ast.Assert, ast.JoinedStr)):
            yield child
