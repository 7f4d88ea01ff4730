"""CSR building, its checker, and the content digest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs.csr import build_csr, check_csr
from workloads.graphs.graph import Provenance, make_graph

EDGE_LISTS = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=80)
    )
)


def arrays(edges: list[tuple[int, int]], dtype: type = np.int32) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(edges, dtype=dtype).reshape(-1, 2)
    return both[:, 0], both[:, 1]


@given(EDGE_LISTS, st.sampled_from([np.int32, np.int64, np.uint16]))
def test_csr_holds_exactly_the_simple_symmetric_edges(
    case: tuple[int, list[tuple[int, int]]], dtype: type
) -> None:
    n, edges = case
    indptr, indices = build_csr(n, *arrays(edges, dtype))
    expected = [sorted({b if a == v else a for a, b in edges if v in (a, b) and a != b}) for v in range(n)]
    assert [indices[indptr[v] : indptr[v + 1]].tolist() for v in range(n)] == expected
    assert indptr.dtype == np.int64 and indices.dtype == np.int32 and len(indptr) == n + 1
    check_csr((indptr, indices))


@given(EDGE_LISTS, st.integers(0, 80))
def test_cutting_the_input_in_chunks_changes_nothing(
    case: tuple[int, list[tuple[int, int]]], cut: int
) -> None:
    n, edges = case
    source, target = arrays(edges)
    whole = build_csr(n, source, target)
    chunks = build_csr(n, [source[:cut], source[cut:]], [target[:cut], target[cut:]])
    assert whole[0].tolist() == chunks[0].tolist() and whole[1].tolist() == chunks[1].tolist()


@pytest.mark.parametrize("bad", [-1, 3, 2**40])
def test_an_id_outside_the_vertices_is_refused(bad: int) -> None:
    with pytest.raises(InputError, match=rf"{bad}.*0\.\.2"):
        build_csr(3, np.array([0]), np.array([bad]))


@pytest.mark.parametrize(
    ("indptr", "indices", "complaint"),
    [
        ([0, 1, 2], [1, 0], ""),
        ([0, 0], [], ""),
        ([], [], "empty"),
        ([1, 1, 2], [1, 0], "span"),
        ([0, 1, 3], [1, 0], "span"),
        ([0, 2, 1, 2], [1, 0], "decreases"),
        ([0, 1, 2], [2, 0], "outside"),
        ([0, 1, 2], [0, 0], "self loop"),
        ([0, 2, 3, 4], [2, 1, 0, 0], "ascending"),
        ([0, 2, 3], [1, 1, 0], "ascending"),
        ([0, 1, 1], [1], "reverse"),
        ([0, 1, 2, 3], [1, 2, 0], "reverse"),
    ],
)
def test_the_checker_names_every_kind_of_defect(
    indptr: list[int], indices: list[int], complaint: str
) -> None:
    csr = (np.array(indptr, np.int64), np.array(indices, np.int32))
    if complaint:
        with pytest.raises(InputError, match=complaint):
            check_csr(csr)
    else:
        check_csr(csr)


def test_the_digest_follows_content_and_declared_widths_only() -> None:
    def digest(edges: list[tuple[int, int]], name: str = "a", **widths: int) -> str:
        csr = build_csr(4, *arrays(edges))
        return make_graph(name, csr, Provenance("generated", name), **widths).digest

    base = digest([(0, 1), (1, 2)])
    assert base == digest([(2, 1), (1, 0), (0, 1)], name="b")
    assert len({base, digest([(0, 1)]), digest([(0, 1), (1, 2)], feature_width=3),
                digest([(0, 1), (1, 2)], num_classes=3)}) == 4  # fmt: skip


def test_arrays_of_a_graph_cannot_be_written() -> None:
    graph = make_graph("g", build_csr(2, *arrays([(0, 1)])), Provenance("generated", "test"))
    with pytest.raises(ValueError, match="read-only"):
        graph.indices[0] = 0


def test_arrays_that_do_not_fit_the_vertices_are_refused() -> None:
    csr = build_csr(2, *arrays([(0, 1)]))
    with pytest.raises(ValueError, match="labels has 3 rows"):
        make_graph("g", csr, Provenance("generated", "test"), labels=np.zeros(3, np.int32))
    with pytest.raises(ValueError, match="declared"):
        make_graph(
            "g", csr, Provenance("generated", "test"), feature_width=2, features=np.zeros((2, 3), np.float32)
        )
