"""KeyMaker: the names of SGLang's pages, with everything that makes one page another page.

    sg<16 hex digits: model and tag>.<generation>/<hash of the page>_<rank>_<part>
    rank:  t<tensor parallel rank>.<size>, p<pipeline>, c<context parallel>; empty: the same on all
    part:  <pool>.<12 hex digits: dtype, layout, page size, layers, bytes>.<number>

The hash is the first run of 32 or more hex digits in the name, so all parts of a page, of every
rank and pool, are one group: they share an owner and a lease, and leave together.
"""

import hashlib
from typing import Any, List, Optional, Sequence


def _digest(facts: Sequence[Any], digits: int) -> str:
    return hashlib.sha256(repr(tuple(facts)).encode()).hexdigest()[:digits]


def fingerprint(pool: Any, sizes: Sequence[int]) -> str:
    """What must be equal for a page of one host pool to be a page of another one. The number of
    heads is left out: ranks of another tensor parallel size may share parts (page_head)."""
    names = ("layout", "page_size", "start_layer", "end_layer", "kv_cache_dim", "head_dim",
             "v_head_dim", "kv_lora_rank", "qk_rope_head_dim")
    facts = [str(getattr(pool, "dtype", None)), *(getattr(pool, name, None) for name in names)]
    return _digest([*facts, *sizes], 12)


class KeyMaker:
    """Thread: any; only the generation changes. `config`: SGLang's HiCacheStorageConfig."""

    def __init__(self, config: Any, tag: str) -> None:
        def fact(name: str, default: Any) -> Any:
            value = getattr(config, name, None)
            return default if value is None else value

        self.is_replicated = bool(fact("is_mla_model", False))
        self.tp_rank: int = fact("tp_rank", 0)
        self.tp_size: int = fact("tp_size", 1)
        self._lcm: Optional[int] = fact("tp_lcm_size", None)
        self._pp = (fact("pp_rank", 0), fact("pp_size", 1))
        self._cp = (fact("attn_cp_rank", 0), fact("attn_cp_size", 1))
        # A rank whose heads are stored in as many parts as there are ranks at the largest size.
        splits = bool(fact("should_split_heads", False)) and self._lcm is not None
        self.split_factor: int = (self._lcm or 1) // self.tp_size if splits else 1
        self._stem = f"sg{_digest([fact('model_name', ''), tag], 16)}"
        self.generation = 0

    def prefix(self) -> str:
        return f"{self._stem}.{self.generation}/"

    def marker(self, generation: int) -> str:
        """The object that says that this generation has begun: what is older was cleared."""
        return f"{self._stem}_began.{generation}"

    def _others(self) -> str:
        pipeline = f"p{self._pp[0]}.{self._pp[1]}" if self._pp[1] > 1 else ""
        context = f"c{self._cp[0]}.{self._cp[1]}" if self._cp[1] > 1 else ""
        return pipeline + context

    def suffixes(self, pool: str, print_: str, parts: int, replicated: bool,
                 page_head: bool = False) -> List[str]:
        """Behind the hash, of each object of one page, in the order of the pool's buffers.

        parts: objects of a page and rank; with page_head those of all ranks of the largest size.
        """
        if replicated:
            ranks = [""]
        elif page_head and self._lcm:
            first = self.tp_rank * self.split_factor
            ranks = [f"t{first + i}.{self._lcm}" for i in range(self.split_factor)]
        else:
            ranks = [f"t{self.tp_rank}.{self.tp_size}"]
        return [f"_{rank}{self._others()}_{pool}.{print_}.{i}" for rank in ranks
                for i in range(parts // len(ranks))]
