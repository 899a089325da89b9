"""A tokenizer, with the names, defaults and results that transformers 5 has."""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
import warnings
from typing import (Any, Callable, Dict, List, Literal, Mapping, Optional, Sequence as Many, Union,
                    overload)

import numpy as np

from . import _arrays, _ng
from ._errors import UsageError
from ._words import Path

Messages = Many[Mapping[str, Any]]

_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_LLAMAS = (("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>"))
# Where transformers' clean_up_tokenization_spaces takes spaces out.
_BEFORE = re.compile(r" (?=[.?!,]|n't|'m|'s|'ve|'re)")


class Encoding(Dict[str, Any]):
    """What a call of a tokenizer gives: ``input_ids`` and ``attention_mask``, by name or as
    attributes. A list of ids, or of several texts a list of lists; arrays with
    ``return_tensors="np"``. :meth:`Engine.generate` takes it as a prompt."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"an Encoding has {', '.join(self)}, not '{name}'") from None


def _texts(given: Any, of: str) -> List[str]:
    texts = list(given)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{of} takes a text or a list of texts, not {type(text).__name__} in a list")
    return texts


def _is_batch(ids: Any) -> bool:
    """Whether these are several lists of ids."""
    if isinstance(ids, np.ndarray):
        return ids.ndim > 1
    return isinstance(ids, (list, tuple)) and len(ids) > 0 and hasattr(ids[0], "__len__")


class Tokenizer:
    """Text to ids and back, without a model's weights.

    path: a model folder, a GGUF file, a tokenizer.json, a SentencePiece .model or a meta.pkl.
    chat_template: "auto" is the model's own; or a name, or a file (``tokenizer.chat_template``).
    system, date, variables: what every conversation begins with, the date it is told, and variables
        of the template (``run.system``, ``run.date``, ``run.template.*``).
    warning: called with what the user should know, a line at a time; by default warnings.warn.

    Ids, texts and spellings are those of transformers for the same files, and of a GGUF file those
    of llama.cpp. It may be used by several threads at once.
    """

    def __init__(self, path: Path, *, chat_template: str = "auto", system: str = "", date: str = "",
                 variables: Optional[Mapping[str, Any]] = None,
                 warning: Optional[Callable[[str], Any]] = None):
        self.name_or_path = os.fspath(path)
        lines = [(name, value if isinstance(value, str) else json.dumps(value))
                 for name, value in (variables or {}).items()]
        self._raw = _ng.Tokenizer(self.name_or_path, chat_template, lines, system, date,
                                  warning or (lambda line: warnings.warn(line, stacklevel=4)))
        self._lock = threading.Lock()
        self._spelled: Optional[List[str]] = None
        self._ids: Dict[str, int] = {}
        self._named: Optional[Dict[str, str]] = None
        self._special = self._raw.special_ids()

    # Vocabulary.

    @property
    def vocab_size(self) -> int:
        """Tokens, without those that are added to the vocabulary: ``len()`` counts these, too."""
        return self._raw.vocab_size() - self._raw.n_added()

    def __len__(self) -> int:
        return self._raw.vocab_size()

    def __bool__(self) -> bool:
        return True

    def __contains__(self, token: str) -> bool:
        return token in self._vocabulary()

    def _spellings(self) -> List[str]:
        with self._lock:
            if self._spelled is None:
                spelled = self._raw.spellings()
                self._ids = {token: i for i, token in enumerate(spelled) if token}
                self._spelled = spelled
            return self._spelled

    def _vocabulary(self) -> Dict[str, int]:
        self._spellings()
        return self._ids

    def get_vocab(self) -> Dict[str, int]:
        """{token: id}, tokens as the files spell them: "Ġthe", "▁the", "<0x0A>"."""
        return dict(self._vocabulary())

    @property
    def vocab(self) -> Dict[str, int]:
        """The same."""
        return self.get_vocab()

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:
        """The spelling of an id, or of each of some ids; None for an id that there is not."""
        spelled = self._spellings()
        if isinstance(ids, (int, np.integer)):
            return spelled[ids] or None if 0 <= ids < len(spelled) else None
        skipped = set(self._special) if skip_special_tokens else set()
        return [spelled[i] or None if 0 <= i < len(spelled) else None
                for i in _arrays.ids(ids).tolist() if i not in skipped]

    def convert_tokens_to_ids(self, tokens: Union[str, Many[str]]) -> Any:
        """The id of a token by its spelling, or of each of some tokens. What there is not has the id
        of the unknown token, or None."""
        ids = self._vocabulary()
        unknown = self.unk_token_id
        if isinstance(tokens, str):
            return ids.get(tokens, unknown)
        return [ids.get(token, unknown) for token in _texts(tokens, "convert_tokens_to_ids()")]

    def convert_tokens_to_string(self, tokens: Many[str]) -> str:
        """The text of spelled tokens."""
        text: str = self.decode(self.convert_tokens_to_ids(tokens))
        return text

    # Special tokens.

    @property
    def special_tokens_map(self) -> Dict[str, str]:
        """{"bos_token": "<s>", ...}, as far as the files name them. A SentencePiece model alone names
        nothing, and has LlamaTokenizer's names."""
        if self._named is None:
            special = self.all_special_tokens
            names = self._raw.names() or {name: token for name, token in _LLAMAS if token in special}
            self._named = {name: names[name] for name in _NAMED if names.get(name)}
        return dict(self._named)

    def _special_id(self, name: str) -> Optional[int]:
        token = self.special_tokens_map.get(name)
        return None if token is None else self._vocabulary().get(token)

    @property
    def all_special_ids(self) -> List[int]:
        """Rising."""
        return list(self._special)

    @property
    def all_special_tokens(self) -> List[str]:
        """In the order of their ids."""
        tokens: List[str] = self.convert_ids_to_tokens(self._special)
        return tokens

    bos_token = property(lambda self: self.special_tokens_map.get("bos_token"))
    eos_token = property(lambda self: self.special_tokens_map.get("eos_token"))
    unk_token = property(lambda self: self.special_tokens_map.get("unk_token"))
    pad_token = property(lambda self: self.special_tokens_map.get("pad_token"))
    bos_token_id = property(lambda self: self._special_id("bos_token"))
    eos_token_id = property(lambda self: self._special_id("eos_token"))
    unk_token_id = property(lambda self: self._special_id("unk_token"))
    pad_token_id = property(lambda self: self._special_id("pad_token"))

    # Text to ids.

    def encode(self, text: str, add_special_tokens: bool = True, *, truncation: bool = False,
               max_length: Optional[int] = None, split_special_tokens: bool = False,
               return_tensors: Optional[str] = None) -> Any:
        """The ids of a text: a list, or int64 [1, n] with ``return_tensors="np"``.

        add_special_tokens: with those that the tokenizer's files put before and behind a text.
        truncation: no more ids than ``max_length``, those of the end left out.
        split_special_tokens: literals of special tokens in the text are text. By default they become
            these tokens, as in transformers; :meth:`Engine.encode` and the turns of a conversation
            take them as text.
        """
        if not isinstance(text, str):
            raise TypeError(f"encode() takes a text, not {type(text).__name__}; call the tokenizer "
                            "with a list of texts")
        ids = self._encode([text], add_special_tokens, truncation, max_length, split_special_tokens)
        return _tensors(ids, return_tensors) if return_tensors else ids[0]

    def __call__(self, text: Union[str, Many[str]], add_special_tokens: bool = True, *,
                 truncation: bool = False, max_length: Optional[int] = None,
                 split_special_tokens: bool = False, return_tensors: Optional[str] = None,
                 return_attention_mask: bool = True) -> Encoding:
        """The ids of a text or of each of some texts, an :class:`Encoding`. They are not padded:
        :meth:`Engine.generate` takes lists of any length. Arguments: see :meth:`encode`."""
        texts = [text] if isinstance(text, str) else _texts(text, "a tokenizer")
        ids = self._encode(texts, add_special_tokens, truncation, max_length, split_special_tokens)
        return _encoding(ids, isinstance(text, str), return_tensors, return_attention_mask)

    def tokenize(self, text: str, add_special_tokens: bool = False) -> List[str]:
        """The spellings of the tokens of a text."""
        tokens: List[str] = self.convert_ids_to_tokens(self.encode(text, add_special_tokens))
        return tokens

    def _encode(self, texts: List[str], add_special: bool, truncation: bool,
                max_length: Optional[int], split_special: bool) -> List[List[int]]:
        ids = self._raw.encode(texts, add_special, not split_special)
        if not truncation:
            return ids
        if max_length is None:
            raise UsageError("truncation needs max_length, the most ids")
        ends = len(self._raw.encode([""], True, False)[0]) if add_special else 0
        if ends == 0:
            return [each[:max_length] for each in ids]
        plain = self._raw.encode(texts, False, not split_special)
        return [_cut(whole, inner, max_length) for whole, inner in zip(ids, plain)]

    # Ids to text.

    def decode(self, token_ids: Any, skip_special_tokens: bool = False,
               clean_up_tokenization_spaces: bool = False) -> Any:
        """The text of ids, or of several lists of ids a list of texts. Bytes that are no UTF-8 are
        U+FFFD. skip_special_tokens: without special tokens, which are their literals otherwise."""
        if _is_batch(token_ids):
            return self.batch_decode(token_ids, skip_special_tokens, clean_up_tokenization_spaces)
        one = [token_ids] if isinstance(token_ids, (int, np.integer)) else token_ids
        return self.batch_decode([one], skip_special_tokens, clean_up_tokenization_spaces)[0]

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False,
                     clean_up_tokenization_spaces: bool = False) -> List[str]:
        """The text of each list of ids."""
        texts = self._raw.decode([_arrays.ids(ids) for ids in sequences], skip_special_tokens)
        if clean_up_tokenization_spaces:
            texts = [_BEFORE.sub("", text.replace(" ' ", "'")) for text in texts]
        return texts

    # Conversations.

    @overload
    def apply_chat_template(self, conversation: Any,
                            tools: Optional[Many[Union[Mapping[str, Any], Callable[..., Any]]]] = None,
                            *, chat_template: Optional[str] = None, add_generation_prompt: bool = False,
                            continue_final_message: bool = False, tokenize: Literal[True] = True,
                            truncation: bool = False, max_length: Optional[int] = None,
                            return_tensors: Optional[str] = None, return_dict: Literal[True] = True,
                            **template_arguments: Any) -> Encoding: ...

    @overload
    def apply_chat_template(self, conversation: Any, *positional: Any, **named: Any) -> Any: ...

    def apply_chat_template(self, conversation: Any,
                            tools: Optional[Many[Union[Mapping[str, Any], Callable[..., Any]]]] = None,
                            *, chat_template: Optional[str] = None, add_generation_prompt: bool = False,
                            continue_final_message: bool = False, tokenize: bool = True,
                            truncation: bool = False, max_length: Optional[int] = None,
                            return_tensors: Optional[str] = None, return_dict: bool = True,
                            **template_arguments: Any) -> Any:
        """A conversation as the model's chat template writes it: an :class:`Encoding` of its ids.

        conversation: a list of {"role", "content"}, or a list of such lists.
        tools: what the model may call, as the template expects it.
        chat_template: the name of one, a file, or its text in Jinja.
        add_generation_prompt: ends with what comes before an answer.
        continue_final_message: the last message is the beginning of an answer, which goes on.
        tokenize: False gives the text. return_dict: False gives the list of ids alone.
        template_arguments: variables of the template, ``enable_thinking=False``.

        Where people say the literal of a special token it is text; nobody forges a turn.
        """
        if isinstance(conversation, str):
            raise TypeError('a conversation is a list of {"role", "content"}, not a text')
        if add_generation_prompt and continue_final_message:
            raise ValueError("add_generation_prompt and continue_final_message do not go together: one "
                             "begins another message, the other goes on with the last one")
        one = len(conversation) == 0 or isinstance(conversation[0], Mapping)
        asked = [
            _ng.Conversation(json.dumps(list(messages)), "" if tools is None else json.dumps(_tools(tools)),
                             json.dumps(template_arguments), add_generation_prompt,
                             continue_final_message)
            for messages in ([conversation] if one else conversation)]
        with _template(chat_template) as name:
            if not tokenize:
                texts = [self._raw.render(each, name) for each in asked]
                return texts[0] if one else texts
            ids = [self._raw.encode_chat(each, name) for each in asked]
        if truncation:
            if max_length is None:
                raise UsageError("truncation needs max_length, the most ids")
            ids = [each[:max_length] for each in ids]
        if return_dict:
            return _encoding(ids, one, return_tensors, True)
        if return_tensors:
            return _tensors(ids, return_tensors)
        return ids[0] if one else ids

    def __repr__(self) -> str:
        return f"Tokenizer({self.name_or_path!r}, {len(self)} tokens)"


class _template:
    """The name of a template; one that is given as text is a file meanwhile."""

    def __init__(self, given: Optional[str]):
        self._given = given or ""
        self._file: Any = None

    def __enter__(self) -> str:
        if "{" not in self._given:
            return self._given
        self._file = tempfile.NamedTemporaryFile("w", suffix=".jinja", encoding="utf-8")
        self._file.write(self._given)
        self._file.flush()
        return str(self._file.name)

    def __exit__(self, *unused: Any) -> None:
        if self._file is not None:
            self._file.close()


def _tools(tools: Many[Any]) -> List[Any]:
    for tool in tools:
        if not isinstance(tool, Mapping):
            raise TypeError('a tool is a {"type": "function", "function": {"name", "description", '
                            f'"parameters"}}}}, not {type(tool).__name__}')
    return list(tools)


def _cut(whole: List[int], inner: List[int], most: int) -> List[int]:
    """The ids of a text with what begins and ends it, at most so many."""
    if len(whole) <= most:
        return whole
    begins = next((i for i in range(len(whole) - len(inner) + 1)
                   if whole[i:i + len(inner)] == inner), 0)
    n_ends = len(whole) - begins - len(inner)
    kept = max(0, most - begins - n_ends)
    return whole[:begins] + inner[:kept] + whole[begins + len(inner):]


def _tensors(ids: List[List[int]], kind: str) -> Any:
    if kind != "np":
        raise UsageError(f"return_tensors = {kind!r}, must be 'np' or left out; torch.tensor() takes the list")
    if len({len(each) for each in ids}) > 1:
        raise UsageError("return_tensors needs texts of the same number of ids, and nothing is padded "
                         "here; leave it out")
    return np.array(ids, np.int64)


def _encoding(ids: List[List[int]], one: bool, tensors: Optional[str], mask: bool) -> Encoding:
    ones = [[1] * len(each) for each in ids]
    made = Encoding(input_ids=_tensors(ids, tensors) if tensors else ids[0] if one else ids)
    if mask:
        made["attention_mask"] = _tensors(ones, tensors) if tensors else ones[0] if one else ones
    return made


def load_tokenizer(path: Path, **options: Any) -> Tokenizer:
    """The tokenizer of a model folder or a file; as :class:`Tokenizer`."""
    return Tokenizer(path, **options)


def of_engine(config: Mapping[str, str], warning: Callable[[str], Any]) -> Tokenizer:
    """The one that an engine with this config has."""
    prefix = "run.template."
    variables = {key[len(prefix):]: value for key, value in config.items() if key.startswith(prefix)}
    return Tokenizer(config["tokenizer.path"] or config["model.path"],
                     chat_template=config["tokenizer.chat_template"], system=config["run.system"],
                     date=config["run.date"], variables=variables, warning=warning)
