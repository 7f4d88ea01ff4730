// Edge lists to CSR: symmetrise, drop self loops, merge duplicates, sort every row.
#include "arrays.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace netfold {
namespace {

// Counting sort by row, then a sort inside each row: 4 bytes per directed edge besides the input, no pair sort.
// Chunks come as a list so that a reader that streams a file never concatenates what it has read.
template <typename T>
nb::tuple build(const std::vector<In<T>>& sources, const std::vector<In<T>>& targets, std::int64_t n) {
    if (n < 0 || n > std::numeric_limits<std::int32_t>::max())
        throw std::invalid_argument("vertex count " + std::to_string(n) + " is outside 0..2147483647");
    if (sources.size() != targets.size()) throw std::invalid_argument("unequal numbers of chunks");
    std::vector<std::int64_t> indptr(static_cast<std::size_t>(n) + 1, 0);
    std::vector<std::int32_t> indices;
    {
        nb::gil_scoped_release release;
        for (std::size_t c = 0; c < sources.size(); ++c) {
            const std::size_t count = sources[c].shape(0);
            if (count != targets[c].shape(0)) throw std::invalid_argument("chunks of unequal length");
            const T* s = sources[c].data();
            const T* t = targets[c].data();
            for (std::size_t i = 0; i < count; ++i) {
                if (s[i] < 0 || s[i] >= n || t[i] < 0 || t[i] >= n)
                    throw std::out_of_range("edge (" + std::to_string(s[i]) + ", " + std::to_string(t[i]) +
                                            ") with ids outside 0.." + std::to_string(n - 1));
                if (s[i] == t[i]) continue;
                ++indptr[static_cast<std::size_t>(s[i]) + 1];
                ++indptr[static_cast<std::size_t>(t[i]) + 1];
            }
        }
        for (std::size_t v = 0; v < static_cast<std::size_t>(n); ++v) indptr[v + 1] += indptr[v];
        indices.resize(static_cast<std::size_t>(indptr.back()));
        std::vector<std::int64_t> cursor(indptr.begin(), indptr.end() - 1);
        for (std::size_t c = 0; c < sources.size(); ++c) {
            const std::size_t count = sources[c].shape(0);
            const T* s = sources[c].data();
            const T* t = targets[c].data();
            for (std::size_t i = 0; i < count; ++i) {
                if (s[i] == t[i]) continue;
                indices[static_cast<std::size_t>(cursor[s[i]]++)] = static_cast<std::int32_t>(t[i]);
                indices[static_cast<std::size_t>(cursor[t[i]]++)] = static_cast<std::int32_t>(s[i]);
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
    }
    return nb::make_tuple(to_numpy(std::move(indptr)), to_numpy(std::move(indices)));
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
