"""YAML text to a tree of nodes that know where they stand. The only module that reads YAML.

It listens to the parser's events and leaves its composer aside, so that nothing is resolved, merged, repeated or
nested without our leave: tags, merge keys, aliases, second documents and deep nesting end here. Aliases are refused
altogether, not expanded within bounds: no document of ours has anything to share, and only a value that is written
where it is used has one place to point at.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import yaml

from rmsaudit.documents.files import read_bytes
from rmsaudit.documents.nodes import Entry, Mapping, Mark, Node, Scalar, Sequence, Tree
from rmsaudit.documents.problems import Problems, Refused, quoted
from rmsaudit.documents.scalars import is_text_to_all
from rmsaudit.errors import InputProblem, Problem

DEEPEST = 64  # lists and mappings inside one another; a record has about 8
TOO_DEEP = f"nested deeper than {DEEPEST} levels; no document needs that"
MERGE_KEY = "<<"
YAML_TAGS = "tag:yaml.org,2002:"  # what the parser makes of `!!`

_LOADER: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{3,}")  # at this length only words like `true` and `null` are more than text


def read_source(path: Path) -> Tree:
    """The nodes of a file. Raises InputProblem with everything that is wrong with it as YAML."""
    try:
        data = read_bytes(path)
    except Refused as refused:
        raise InputProblem([Problem(path=str(path), says=refused.says, kind=refused.kind)]) from None
    return parse(data, str(path))


def parse(data: bytes, path: str) -> Tree:
    """The nodes of a file's bytes; `path` is what messages call it. The root is a mapping. Raises InputProblem."""
    problems = Problems(path)
    root = _compose(_decode(data, problems), problems, marked=True)
    problems.raise_any()
    if isinstance(root, Mapping):
        return Tree(path=path, digest=hashlib.sha256(data).hexdigest(), root=root)
    if root is None or root == Scalar("", plain=True, mark=root.mark):
        problems.add(None, "is empty; write the document, or name another file", "empty-file")
    else:
        problems.add(root.mark, "a document is a mapping; begin with `schema:`", "wrong-shape")
    raise InputProblem(problems.found)


def parse_flag(text: str, flag: str) -> Tree:
    """The value of a command-line flag, in the same grammar; its nodes have no marks. Raises InputProblem."""
    problems = Problems(flag)
    if found := _UNPRINTABLE.search(text):
        problems.add(None, f"holds the character {found[0]!a}; write text", "bad-character")
        problems.raise_any()
    root = _compose(text, problems, marked=False)
    problems.raise_any()
    return Tree(path=flag, digest="", root=root or Scalar("", plain=True, mark=None))


def _decode(data: bytes, problems: Problems) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        mark = _mark_of(data[: error.start].decode("utf-8", "replace"))
        problems.add(mark, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8", "not-utf8")
        text = ""
    if found := _UNPRINTABLE.search(text):
        mark = _mark_of(text[: found.start()])
        problems.add(mark, f"character U+{ord(found[0]):04X} cannot stand in YAML; remove it", "bad-character")
    problems.raise_any()
    return text


def _mark_of(before: str) -> Mark:
    lines = re.split(r"\r\n|\r|\n", before)
    return Mark(len(lines), len(lines[-1]) + 1)


def _compose(text: str, problems: Problems, *, marked: bool) -> Node | None:
    """The root node, or None where there is no document. A syntax error is added to what was found before it."""
    builder = _Builder(problems, marked)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
            if builder.done:
                break
    except yaml.MarkedYAMLError as error:
        problems.add(builder.mark(error.problem_mark), *_syntax(error))
    except (
        yaml.YAMLError,
        ValueError,
    ) as error:  # ValueError: from escapes and directives, by the parser without libyaml
        problems.add(None, f"this is not YAML: {quoted(str(error))}; mend it", "syntax")
    return builder.root


def _syntax(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    """What to say about a syntax error, and its kind."""
    problem = str(error.problem)
    if "nesting depth" in problem:  # libyaml's own limit: its scanner looks ahead further than we have listened
        return TOO_DEEP, "too-deep"
    began, stopped = error.context_mark, error.problem_mark
    if error.context and began is not None and stopped is not None and began.line != stopped.line:
        problem += f" ({error.context} from line {began.line + 1})"
    return f"this is not YAML: {problem}; mend the text here or just above it", "syntax"


class _Place(Protocol):
    """A position as either of PyYAML's parsers gives it, counted from 0."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet. key: the one whose value comes next, or None."""

    mark: Mark | None
    is_mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    key: Scalar | None = None

    def close(self) -> Node:
        if self.is_mapping:
            return Mapping(self.entries, self.mark)
        return Sequence(tuple(self.items), self.mark)


class _Builder:
    """Builds the tree from events with its own stack, so that depth costs no recursion."""

    def __init__(self, problems: Problems, marked: bool) -> None:
        self.problems = problems
        self.marked = marked
        self.root: Node | None = None
        self.documents = 0
        self.done = False  # nothing that follows is worth reading
        self._stack: list[_Open] = []

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._refuse_tag(event)
                self._put(Scalar(event.value, plain=not event.style, mark=self.mark(event.start_mark)))
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._refuse_tag(event)
                self._open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._put(self._stack.pop().close())
            case yaml.AliasEvent():
                says = f"alias `*{event.anchor}` is not read; write out what it stands for"
                mark = self._report(event, says, "alias")
                self._put(Scalar(f"*{event.anchor}", plain=False, mark=mark))
            case yaml.DocumentStartEvent():
                self._begin_document(event)

    def mark(self, place: _Place | None) -> Mark | None:
        return Mark(place.line + 1, place.column + 1) if self.marked and place is not None else None

    def _report(self, event: yaml.Event, says: str, kind: str) -> Mark | None:
        mark = self.mark(event.start_mark)
        self.problems.add(mark, says, kind)
        return mark

    def _begin_document(self, event: yaml.Event) -> None:
        self.documents += 1
        if self.documents > 1:
            self._report(event, "a second document begins; put it into a file of its own", "several-documents")
            self.done = True

    def _refuse_tag(self, event: yaml.NodeEvent) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            written = tag.replace(YAML_TAGS, "!!", 1)
            self._report(event, f"tag {quoted(written)} is not read; remove it", "tag")

    def _open(self, event: yaml.Event) -> None:
        if len(self._stack) == DEEPEST:
            self._report(event, TOO_DEEP, "too-deep")
            self.done = True
        self._stack.append(_Open(self.mark(event.start_mark), isinstance(event, yaml.MappingStartEvent)))

    def _put(self, node: Node) -> None:
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        if not parent.is_mapping:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = self._checked_key(node, parent)
        else:
            parent.entries.setdefault(parent.key.text, Entry(parent.key.mark, node))
            parent.key = None

    def _checked_key(self, node: Node, parent: _Open) -> Scalar:
        """The key; a refused one comes back as well, so that its value is looked at too."""
        if not isinstance(node, Scalar):
            self.problems.add(
                node.mark, "a key must be a word, and a list or mapping stands here; write a word", "bad-key"
            )
            return Scalar("", plain=False, mark=node.mark)
        if node.text in parent.entries:
            since = parent.entries[node.text].key
            first = f"; first on line {since.line}" if since else ""
            self.problems.add(
                node.mark, f"{quoted(node.text)} is given twice{first}; keep one of them", "duplicate-key"
            )
        elif node.plain and node.text == MERGE_KEY:
            self.problems.add(node.mark, "merge key `<<` is not read; write the keys out", "merge-key")
        elif node.plain and not _NAME.fullmatch(node.text) and not is_text_to_all(node.text):
            says = f"key {quoted(node.text)} is not text to every YAML parser; quote it, or use another word"
            self.problems.add(node.mark, says, "bad-key")
        return node
