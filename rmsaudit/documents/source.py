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
    builder = _compose(_decode(data, problems), problems, marked=True)
    root = builder.root
    if builder.sound and isinstance(root, Mapping):
        digest = hashlib.sha256(data).hexdigest()
        return Tree(path=path, digest=digest, root=root, problems=tuple(problems.found))
    if builder.sound and (root is None or root == Scalar("", plain=True, mark=root.mark)):
        problems.add(None, "is empty; write the document, or name another file", "empty-file")
    elif builder.sound and root is not None:
        problems.add(root.mark, "a document is a mapping; begin with `schema:`", "wrong-shape")
    raise InputProblem(problems.found)


def parse_flag(text: str, flag: str) -> Tree:
    """The value of a command-line flag, in the same grammar; its nodes have no marks. Raises InputProblem."""
    problems = Problems(flag)
    if found := _UNPRINTABLE.search(text):
        problems.add(None, *_bad_character(found[0]))
        problems.raise_any()
    root = _compose(text, problems, marked=False).root
    problems.raise_any()
    return Tree(path=flag, digest="", root=root or Scalar("", plain=True, mark=None))


def _decode(data: bytes, problems: Problems) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        mark = _mark_of(data[: error.start].decode("utf-8", "replace"))
        problems.add(mark, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8", "not-utf8")
        raise InputProblem(problems.found) from None
    if found := _UNPRINTABLE.search(text):
        problems.add(_mark_of(text[: found.start()]), *_bad_character(found[0]))
        raise InputProblem(problems.found)
    return text


def _bad_character(character: str) -> tuple[str, str]:
    return f"character U+{ord(character):04X} cannot stand in a document; remove it", "bad-character"


def _mark_of(before: str) -> Mark:
    lines = re.split(r"\r\n|\r|\n", before)
    return Mark(len(lines), len(lines[-1]) + 1)


def _compose(text: str, problems: Problems, *, marked: bool) -> "_Builder":
    """What could be built. A syntax error is added to what was found before it."""
    builder = _Builder(problems, marked)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
            if builder.done:
                break
    except yaml.MarkedYAMLError as error:
        builder.sound = False
        problems.add(builder.mark(error.problem_mark), *_syntax(error))
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # not from libyaml: odd escapes, endless versions
        builder.sound = False
        problems.add(None, f"this is not YAML: {quoted(str(error))}; mend it", "syntax")
    return builder


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
    """A list or mapping whose end has not come yet. key: the one whose value comes next; None if it was refused."""

    mark: Mark | None
    is_mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    key: Scalar | None = None
    awaits_value: bool = False

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
        self.sound = True  # the tree says what the text says, but for keys that were left out
        self.done = False  # nothing that follows is worth reading
        self._stack: list[_Open] = []

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._take_scalar(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._put(self._stack.pop().close())
            case yaml.AliasEvent():
                says = f"alias `*{event.anchor}` is not read; write out what it stands for"
                self._put(Scalar("", plain=True, mark=self._break(event, says, "alias")))
            case yaml.DocumentStartEvent():
                self._begin_document(event)

    def mark(self, place: _Place | None) -> Mark | None:
        return Mark(place.line + 1, place.column + 1) if self.marked and place is not None else None

    def _break(self, event: yaml.Event, says: str, kind: str) -> Mark | None:
        """A problem that is in the way of reading on."""
        mark = self.mark(event.start_mark)
        self.problems.add(mark, says, kind)
        self.sound = False
        return mark

    def _begin_document(self, event: yaml.Event) -> None:
        self.documents += 1
        if self.documents > 1:
            self._break(event, "a second document begins; put it into a file of its own", "several-documents")
            self.done = True

    def _take_scalar(self, event: yaml.ScalarEvent) -> None:
        text, mark = event.value, self.mark(event.start_mark)
        if event.tag is not None:
            self._refuse_tag(event.tag, mark)
        # What could not stand in the file itself, and came by an escape: it would reach the reader's terminal.
        if not text.isprintable() and (found := _UNPRINTABLE.search(text)):
            self.problems.add(mark, *_bad_character(found[0]))
        self._put(Scalar(text, not event.style, mark))

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        mark = self.mark(event.start_mark)
        if event.tag is not None:
            self._refuse_tag(event.tag, mark)
        if len(self._stack) == DEEPEST:
            self._break(event, TOO_DEEP, "too-deep")
            self.done = True
        self._stack.append(_Open(mark, isinstance(event, yaml.MappingStartEvent)))

    def _refuse_tag(self, tag: str, mark: Mark | None) -> None:
        written = tag.replace(YAML_TAGS, "!!", 1)
        self.problems.add(mark, f"tag {quoted(written)} is not read; remove it", "tag")

    def _put(self, node: Node) -> None:
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        if not parent.is_mapping:
            parent.items.append(node)
        elif not parent.awaits_value:
            parent.key = self._accepted_key(node, parent)
            parent.awaits_value = True
        else:
            if parent.key is not None:
                parent.entries[parent.key.text] = Entry(parent.key.mark, node)
            parent.awaits_value = False

    def _accepted_key(self, node: Node, parent: _Open) -> Scalar | None:
        """The key, or None for one that was refused; its value is looked at, and left out."""
        if not isinstance(node, Scalar):
            self.problems.add(
                node.mark, "a key must be a word, and a list or mapping stands here; write a word", "bad-key"
            )
        elif node.text in parent.entries:
            since = parent.entries[node.text].key
            first = f"; first on line {since.line}" if since else ""
            self.problems.add(
                node.mark, f"{quoted(node.text)} is given twice{first}; keep one of them", "duplicate-key"
            )
        elif node.plain and node.text == MERGE_KEY:
            self.problems.add(node.mark, "merge key `<<` is not read; write the keys out", "merge-key")
        elif node.plain and not is_text_to_all(node.text):
            says = f"key {quoted(node.text)} is not text to every YAML parser; quote it, or use another word"
            self.problems.add(node.mark, says, "bad-key")
        else:
            return node
        return None
