"""``mx.contrib.text.embedding``: vectors of tokens, read from files of lines ``token number number …``.

Files that MXNet downloads are read where it keeps them, ``$MXNET_HOME/embeddings/glove`` and ``…/fasttext``; nothing is
downloaded.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from hybridc import nd, registry
from hybridc.array.ndarray import NDArray
from hybridc.base import data_dir
from hybridc.contrib.text.vocab import UNKNOWN, Vocabulary
from hybridc.errors import CheckError, UnsupportedError

__all__ = [
    "CompositeEmbedding",
    "CustomEmbedding",
    "FastText",
    "GloVe",
    "create",
    "get_pretrained_file_names",
    "register",
]

_LOG = logging.getLogger(__name__)

# The languages of fastText's files of vectors, and the names of those of other names.
_FAST_TEXT_LANGUAGES = """
    aa ab ace ady af ak als am ang an arc ar arz ast as av ay azb az bar bat_smg ba bcl be bg bh bi bjn bm bn bo bpy br
    bs bug bxr ca cbk_zam cdo ceb ce cho chr ch chy ckb co crh cr csb cs cu cv cy da de diq dsb dv dz ee el eml en eo es
    et eu ext fa ff fiu_vro fi fj fo frp frr fr fur fy gag gan ga gd glk gl gn gom got gu gv hak ha haw he hif hi ho hr
    hsb ht hu hy hz ia id ie ig ii ik ilo io is it iu jam ja jbo jv kaa kab ka kbd kg ki kj kk kl km kn koi ko krc kr
    ksh ks ku kv kw ky lad la lbe lb lez lg lij li lmo ln lo lrc ltg lt lv mai map_bms mdf mg mhr mh min mi mk ml mn mo
    mrj mr ms mt multi.ar multi.bg multi.ca multi.cs multi.da multi.de multi.el multi.en multi.es multi.et multi.fi
    multi.fr multi.he multi.hr multi.hu multi.id multi.it multi.mk multi.nl multi.no multi.pl multi.pt multi.ro multi.ru
    multi.sk multi.sl multi.sv multi.tr multi.uk multi.vi mus mwl my myv mzn nah nap na nds_nl nds ne new ng nl nn no
    nov nrm nso nv ny oc olo om or os pag pam pap pa pcd pdc pfl pih pi pl pms pnb pnt ps pt qu rm rmy rn roa_rup
    roa_tara ro rue ru rw sah sa scn sco sc sd se sg sh simple si sk sl sm sn so sq srn sr ss stq st su sv sw szl ta tcy
    tet te tg th ti tk tl tn to tpi tr ts tt tum tw ty tyv udm ug uk ur uz vec vep ve vi vls vo war wa wo wuu xal xh xmf
    yi yo za zea zh_classical zh_min_nan zh zh_yue zu
"""
_FAST_TEXT_NAMES = ("crawl-300d-2M.vec", "wiki-news-300d-1M-subword.vec", "wiki-news-300d-1M.vec")
_GLOVE_NAMES = """
    glove.42B.300d.txt glove.6B.50d.txt glove.6B.100d.txt glove.6B.200d.txt glove.6B.300d.txt glove.840B.300d.txt
    glove.twitter.27B.25d.txt glove.twitter.27B.50d.txt glove.twitter.27B.100d.txt glove.twitter.27B.200d.txt
"""


class _TokenEmbedding(Vocabulary):
    """A vocabulary with a vector for each of its tokens; that of index 0 is all unknown tokens'.

    A subclass that is registered lists the files that it reads in ``pretrained_file_name_sha1``.
    """

    # MXNet keeps hashes of downloads under these names.
    pretrained_file_name_sha1: ClassVar[dict[str, str]] = {}

    _vec_len: int | None = None
    _idx_to_vec: Any = None

    @property
    def vec_len(self) -> Any:
        """The length of each vector."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> Any:
        """The vectors in the order of the indices: an NDArray of shape (tokens, vec_len)."""
        return self._idx_to_vec

    # --- files ---------------------------------------------------------------------------------------------

    @classmethod
    def _check_pretrained_file_names(cls, pretrained_file_name: str) -> None:
        if pretrained_file_name not in cls.pretrained_file_name_sha1:
            raise KeyError(
                f"Cannot find pretrained file {pretrained_file_name} for token embedding {cls.__name__.lower()}; valid "
                f"are {', '.join(cls.pretrained_file_name_sha1)}"
            )

    @classmethod
    def _get_pretrained_file(cls, embedding_root: str, pretrained_file_name: str) -> str:
        path = Path(embedding_root).expanduser() / cls.__name__.lower() / pretrained_file_name
        if not path.is_file():
            # COMPAT(mxnet): there the file is downloaded.
            raise UnsupportedError(
                f"{cls.__name__}: no file {path}; nothing is downloaded: put {pretrained_file_name} there, or read "
                "another file of vectors with CustomEmbedding(path)"
            )
        return str(path)

    def _load_embedding(
        self,
        pretrained_file_path: str,
        elem_delim: str,
        init_unknown_vec: Callable[..., Any],
        encoding: str = "utf8",
    ) -> None:
        """Index the tokens of a file, the first time they come, and keep their vectors.

        Index 0 has the vector of the unknown token, if that is in the file, or else ``init_unknown_vec(shape=…)``.
        """
        path = Path(pretrained_file_path).expanduser()
        if not path.is_file():
            raise ValueError(
                f"`pretrained_file_path` must be a valid path to the pre-trained token embedding file, got {path}"
            )
        _LOG.info("Loading pre-trained token embedding vectors from %s", path)
        unknown: list[float] | None = None
        rows: list[list[float]] = []
        tokens: set[str] = set()
        for number, token, values in _lines(path, elem_delim, encoding):
            if token == self.unknown_token and unknown is None:
                unknown = values
                tokens.add(token)
            elif token in tokens:
                _warn(f"At line {number} of {path}: token {token} has a vector already; this one is skipped")
            elif len(values) == 1:
                _warn(f"At line {number} of {path}: token {token} with one number is likely a header; it is skipped")
            else:
                if rows and len(values) != len(rows[0]):
                    raise CheckError(
                        f"At line {number} of {path}: token {token} has {len(values)} numbers, those before it have "
                        f"{len(rows[0])}; all must have as many"
                    )
                rows.append(values)
                self._token_to_idx[token] = len(self._idx_to_token)
                self._idx_to_token.append(token)
                tokens.add(token)
        if not rows:
            raise CheckError(f"{path} has no vector of two or more numbers")
        self._vec_len = len(rows[0])
        before = len(self._idx_to_token) - len(rows)
        vectors = np.zeros((len(self._idx_to_token), len(rows[0])), np.float32)
        vectors[before:] = rows
        self._idx_to_vec = nd.array(vectors)
        self._idx_to_vec[UNKNOWN] = init_unknown_vec(shape=self._vec_len) if unknown is None else nd.array(unknown)

    # --- vocabularies --------------------------------------------------------------------------------------

    def _index_tokens_from_vocabulary(self, vocabulary: Vocabulary) -> None:
        self._token_to_idx = dict(vocabulary.token_to_idx)
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._unknown_token = vocabulary.unknown_token
        reserved = vocabulary.reserved_tokens
        self._reserved_tokens = None if reserved is None else list(reserved)

    def _set_idx_to_vec_by_embeddings(
        self, token_embeddings: Sequence[_TokenEmbedding], vocab_len: int, vocab_idx_to_token: list[Any]
    ) -> None:
        """For each token the vectors that the embeddings have, one after the other."""
        parts = [nd.concat(e.idx_to_vec[:1], e.get_vecs_by_tokens(vocab_idx_to_token[1:]), dim=0)
                 if vocab_len > 1 else e.idx_to_vec[:1] for e in token_embeddings]  # fmt: skip
        self._vec_len = sum(e.vec_len for e in token_embeddings)
        self._idx_to_vec = nd.concat(*parts, dim=1)

    def _load_pretrained(
        self, name: str, root: str | None, init_unknown_vec: Callable[..., Any], vocabulary: Vocabulary | None
    ) -> None:
        """Read a file of published vectors, of all tokens or of those of a vocabulary."""
        path = self._get_pretrained_file(root or f"{data_dir()}/embeddings", name)
        self._load_embedding(path, " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)

    def _build_embedding_for_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        if vocabulary is None:
            return
        _require(vocabulary, Vocabulary, "vocabulary")
        self._set_idx_to_vec_by_embeddings([self], len(vocabulary), vocabulary.idx_to_token)
        self._index_tokens_from_vocabulary(vocabulary)

    # --- vectors -------------------------------------------------------------------------------------------

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> Any:
        """The vector of a token, or a matrix of a row for each of a list.

        With ``lower_case_backup`` a token that has no index is looked up in lower case.
        """
        known = self.token_to_idx

        def index(token: Any) -> int:
            if lower_case_backup and token not in known:
                token = token.lower()
            return known.get(token, UNKNOWN)

        if not isinstance(tokens, list):
            return self.idx_to_vec[index(tokens)]
        indices = np.array([index(token) for token in cast("list[Any]", tokens)], np.int64)
        return nd.take(self.idx_to_vec, nd.array(indices, dtype="int64"))

    def update_token_vectors(self, tokens: Any, new_vectors: Any) -> None:
        """Change the vectors of one token, or of a list of them: a row of ``new_vectors`` for each.

        Raises:
            ValueError: a token has no index. The unknown token's vector is changed under its own name.
        """
        if self.idx_to_vec is None:
            raise CheckError("update_token_vectors: there are no vectors yet; load them first")
        names = cast("list[Any]", tokens) if isinstance(tokens, list) else [tokens]
        ranks = (1, 2) if len(names) == 1 else (2,)
        if not isinstance(new_vectors, NDArray) or len(new_vectors.shape) not in ranks:
            raise CheckError(
                "update_token_vectors: new_vectors must be an NDArray of 2 axes, or of 1 for a single token, got "
                f"{getattr(new_vectors, 'shape', type(new_vectors).__name__)}"
            )
        if len(new_vectors.shape) == 1:
            new_vectors = new_vectors.expand_dims(0)
        if new_vectors.shape != (len(names), self.vec_len):
            raise CheckError(
                f"update_token_vectors: new_vectors must have shape {(len(names), self.vec_len)}, got "
                f"{new_vectors.shape}"
            )
        unknown = next((token for token in names if token not in self.token_to_idx), None)
        if unknown is not None:
            raise ValueError(
                f"Token {unknown} is unknown; to change the vector of unknown tokens give {self.idx_to_token[UNKNOWN]}"
            )
        for token, row in zip(names, new_vectors, strict=True):
            self._idx_to_vec[self.token_to_idx[token]] = row


def _lines(path: Path, delimiter: str, encoding: str) -> Iterator[tuple[int, str, list[float]]]:
    """Of each line its number, the token and the numbers."""
    with path.open(encoding=encoding) as file:
        for number, line in enumerate(_decoded(file, path), 1):
            token, *values = line.rstrip().split(delimiter)
            try:
                vector = [float(x) for x in values]
            except ValueError:
                vector = []
            if not vector:
                raise CheckError(f"At line {number} of {path}: a token and its numbers are expected, got {line!r}")
            yield number, token, vector


def _decoded(file: Iterable[str], path: Path) -> Iterator[str]:
    """The lines of a text file; a CheckError, which is a ValueError, where it is not in its encoding."""
    try:
        yield from file
    except UnicodeDecodeError as error:
        raise CheckError(f"{path} is not a text in {error.encoding}: {error}; give its encoding") from error


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def _require(value: Any, kind: type[Any], name: str) -> None:
    if not isinstance(value, kind):
        raise CheckError(f"the argument {name} must be a {kind.__name__.strip('_')}, got {type(value).__name__}")


register = registry.get_register_func(_TokenEmbedding, "token embedding")
create = registry.get_create_func(_TokenEmbedding, "token embedding")


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """The names of the files that a token embedding reads.

    Parameters
    ----------
    embedding_name:
        ``"glove"``, ``"fasttext"``, or a name under which yours is registered, else a KeyError; None gives a dict
        of the lists of all.
    """
    known = registry.get_registry(_TokenEmbedding)
    if embedding_name is None:
        return {name: list(cls.pretrained_file_name_sha1) for name, cls in known.items()}
    if embedding_name not in known:
        raise KeyError(f"Cannot find `embedding_name` {embedding_name}; valid are {', '.join(known)}")
    return list(known[embedding_name].pretrained_file_name_sha1)


@register
class GloVe(_TokenEmbedding):
    """Stanford's vectors, global vectors for word representation.

    Parameters
    ----------
    pretrained_file_name:
        One of those that :func:`get_pretrained_file_names` lists, else a KeyError.
    embedding_root:
        The folder in whose folder "glove" the file is; None is ``$MXNET_HOME/embeddings``.
    init_unknown_vec:
        A function that makes the vector of unknown tokens, where the file has none: called with ``shape``.
    vocabulary:
        The Vocabulary to whose tokens the vectors are restricted; None takes all of the file.
    """

    pretrained_file_name_sha1: ClassVar[dict[str, str]] = dict.fromkeys(_GLOVE_NAMES.split(), "")

    def __init__(
        self,
        pretrained_file_name: str = "glove.840B.300d.txt",
        embedding_root: str | None = None,
        init_unknown_vec: Callable[..., Any] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        self._check_pretrained_file_names(pretrained_file_name)
        super().__init__(**kwargs)
        self._load_pretrained(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary)


@register
class FastText(_TokenEmbedding):
    """fastText's vectors.

    Parameters
    ----------
    pretrained_file_name:
        One of those that :func:`get_pretrained_file_names` lists, else a KeyError.
    embedding_root:
        The folder in whose folder "fasttext" the file is; None is ``$MXNET_HOME/embeddings``.
    init_unknown_vec:
        A function that makes the vector of unknown tokens, where the file has none: called with ``shape``.
    vocabulary:
        The Vocabulary to whose tokens the vectors are restricted; None takes all of the file.
    """

    pretrained_file_name_sha1: ClassVar[dict[str, str]] = dict.fromkeys(
        [*_FAST_TEXT_NAMES, *(f"wiki.{language}.vec" for language in _FAST_TEXT_LANGUAGES.split())], ""
    )

    def __init__(
        self,
        pretrained_file_name: str = "wiki.simple.vec",
        embedding_root: str | None = None,
        init_unknown_vec: Callable[..., Any] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        self._check_pretrained_file_names(pretrained_file_name)
        super().__init__(**kwargs)
        self._load_pretrained(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary)


class CustomEmbedding(_TokenEmbedding):
    """Vectors of a user's file: on each line a token and its numbers.

    Parameters
    ----------
    pretrained_file_path:
        The path of the file, else a ValueError.
    elem_delim:
        What is between a token and its numbers.
    encoding:
        The encoding of the file.
    init_unknown_vec:
        A function that makes the vector of unknown tokens, where the file has none: called with ``shape``.
    vocabulary:
        The Vocabulary to whose tokens the vectors are restricted; None takes all of the file.
    """

    def __init__(
        self,
        pretrained_file_path: str,
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: Callable[..., Any] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._build_embedding_for_vocabulary(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """For each token of a vocabulary the vectors that one or several embeddings have, one after the other.

    Parameters
    ----------
    vocabulary:
        The Vocabulary.
    token_embeddings:
        An embedding, or a list of several.
    """

    def __init__(self, vocabulary: Vocabulary, token_embeddings: Any) -> None:
        _require(vocabulary, Vocabulary, "vocabulary")
        embeddings = cast("list[Any]", token_embeddings) if isinstance(token_embeddings, list) else [token_embeddings]
        for each in embeddings:
            _require(each, _TokenEmbedding, "token_embeddings")
        super().__init__()
        self._index_tokens_from_vocabulary(vocabulary)
        self._set_idx_to_vec_by_embeddings(embeddings, len(self), self.idx_to_token)
