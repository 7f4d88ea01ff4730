// Edge lists to CSR: symmetrise, drop self loops, merge duplicates, sort every row.
#include "csr.hpp"

#include "arrays.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace netfold {

// Counting sort by row, then a sort inside each row: 4 bytes per directed edge besides the input, no pair sort.
template <typename T>
Csr build_csr(const std::vector<Pairs<T>>& chunks, std::int64_t n) {
    if (n < 0 || n > std::numeric_limits<std::int32_t>::max())
        throw std::invalid_argument("vertex count " + std::to_string(n) + " is outside 0..2147483647");
    Csr csr;
    std::vector<std::int64_t>& indptr = csr.indptr;
    std::vector<std::int32_t>& indices = csr.indices;
    indptr.assign(static_cast<std::size_t>(n) + 1, 0);
    for (const Pairs<T>& chunk : chunks) {
        for (std::size_t i = 0; i < chunk.count; ++i) {
            const T s = chunk.source[i];
            const T t = chunk.target[i];
            if (s < 0 || s >= n || t < 0 || t >= n)
                throw std::out_of_range("edge (" + std::to_string(s) + ", " + std::to_string(t) +
                                        ") with ids outside 0.." + std::to_string(n - 1));
            if (s == t) continue;
            ++indptr[static_cast<std::size_t>(s) + 1];
            ++indptr[static_cast<std::size_t>(t) + 1];
        }
    }
    for (std::size_t v = 0; v < static_cast<std::size_t>(n); ++v) indptr[v + 1] += indptr[v];
    indices.resize(static_cast<std::size_t>(indptr.back()));
    std::vector<std::int64_t> cursor(indptr.begin(), indptr.end() - 1);
    for (const Pairs<T>& chunk : chunks) {
        for (std::size_t i = 0; i < chunk.count; ++i) {
            const T s = chunk.source[i];
            const T t = chunk.target[i];
            if (s == t) continue;
            indices[static_cast<std::size_t>(cursor[s]++)] = static_cast<std::int32_t>(t);
            indices[static_cast<std::size_t>(cursor[t]++)] = static_cast<std::int32_t>(s);
        }
    }
    // Rows shrink as duplicates go, so each is moved down to where the one before it now ends.
    std::int64_t write = 0;
    std::int64_t begin = 0;
    for (std::size_t v = 0; v < static_cast<std::size_t>(n); ++v) {
        const std::int64_t end = indptr[v + 1];
        auto first = indices.begin() + begin;
        auto last = indices.begin() + end;
        std::sort(first, last);
        last = std::unique(first, last);
        std::move(first, last, indices.begin() + write);
        write += last - first;
        begin = end;
        indptr[v + 1] = write;
    }
    if (static_cast<std::size_t>(write) < indices.size()) {
        indices.resize(static_cast<std::size_t>(write));
        indices.shrink_to_fit();
    }
    return csr;
}

template Csr build_csr(const std::vector<Pairs<std::int32_t>>&, std::int64_t);
template Csr build_csr(const std::vector<Pairs<std::int64_t>>&, std::int64_t);

namespace {

template <typename T>
nb::tuple build(const std::vector<In<T>>& sources, const std::vector<In<T>>& targets, std::int64_t n) {
    if (sources.size() != targets.size()) throw std::invalid_argument("unequal numbers of chunks");
    std::vector<Pairs<T>> chunks;
    for (std::size_t c = 0; c < sources.size(); ++c) {
        if (sources[c].shape(0) != targets[c].shape(0)) throw std::invalid_argument("chunks of unequal length");
        chunks.push_back({sources[c].data(), targets[c].data(), sources[c].shape(0)});
    }
    Csr csr;
    {
        nb::gil_scoped_release release;
        csr = build_csr(chunks, n);
    }
    return nb::make_tuple(to_numpy(std::move(csr.indptr)), to_numpy(std::move(csr.indices)));
}

// What is wrong with a CSR that claims to be a simple symmetric graph; empty when nothing is.
std::string check(const In<std::int64_t>& indptr, const In<std::int32_t>& indices) {
    nb::gil_scoped_release release;
    const std::int64_t* p = indptr.data();
    const std::int32_t* a = indices.data();
    if (indptr.shape(0) == 0) return "indptr is empty";
    const std::int64_t n = static_cast<std::int64_t>(indptr.shape(0)) - 1;
    if (p[0] != 0 || p[n] != static_cast<std::int64_t>(indices.shape(0)))
        return "indptr does not span indices";
    for (std::int64_t v = 0; v < n; ++v)
        if (p[v] > p[v + 1]) return "indptr decreases at vertex " + std::to_string(v);
    // Visiting rows in ascending order, the rows that name v must appear in row v in that very order.
    std::vector<std::int64_t> cursor(p, p + n);
    for (std::int64_t v = 0; v < n; ++v) {
        for (std::int64_t e = p[v]; e < p[v + 1]; ++e) {
            const std::int32_t u = a[e];
            if (u < 0 || u >= n) return "neighbour " + std::to_string(u) + " of vertex " + std::to_string(v) +
                                        " is outside 0.." + std::to_string(n - 1);
            if (u == v) return "self loop at vertex " + std::to_string(v);
            if (e > p[v] && a[e - 1] >= u) return "row " + std::to_string(v) + " is not strictly ascending";
            if (cursor[u] >= p[u + 1] || a[cursor[u]] != v)
                return "edge " + std::to_string(v) + " -> " + std::to_string(u) + " has no reverse";
            ++cursor[u];
        }
    }
    return "";
}

}  // namespace

void bind_csr(nb::module_& m) {
    m.def("build_csr", &build<std::int32_t>, nb::arg("sources"), nb::arg("targets"), nb::arg("vertices"));
    m.def("build_csr", &build<std::int64_t>, nb::arg("sources"), nb::arg("targets"), nb::arg("vertices"));
    m.def("check_csr", &check, nb::arg("indptr"), nb::arg("indices"));
}

}  // namespace netfold
