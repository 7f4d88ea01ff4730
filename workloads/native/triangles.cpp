// Neighbours that the two ends of each edge share, by meeting every triangle once.
#include "arrays.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace netfold {

// indptr: int64[n+1]; indices: int32[m] of a simple symmetric graph with ascending rows. int64[m].
static auto common_neighbours(In<std::int64_t> indptr_in, In<std::int32_t> indices_in) {
    const std::int64_t n = static_cast<std::int64_t>(indptr_in.size()) - 1;
    const auto* indptr = indptr_in.data();
    const auto* indices = indices_in.data();
    std::vector<std::int64_t> count(indices_in.size(), 0);
    {
        nb::gil_scoped_release released;
        const auto before = [&](std::int64_t a, std::int64_t b) {
            const auto x = indptr[a + 1] - indptr[a], y = indptr[b + 1] - indptr[b];
            return x != y ? x < y : a < b;
        };
        // An edge is directed from its end of lower degree: no vertex has more than sqrt(2 m) such edges.
        std::vector<std::int64_t> mark(static_cast<std::size_t>(n), -1);
        for (std::int64_t a = 0; a < n; ++a) {
            for (auto e = indptr[a]; e < indptr[a + 1]; ++e)
                if (before(a, indices[e])) mark[indices[e]] = e;
            for (auto ab = indptr[a]; ab < indptr[a + 1]; ++ab) {
                const auto b = indices[ab];
                if (!before(a, b)) continue;
                for (auto bc = indptr[b]; bc < indptr[b + 1]; ++bc) {
                    const auto c = indices[bc];
                    if (!before(b, c) || mark[c] < 0) continue;
                    ++count[ab];
                    ++count[bc];
                    ++count[mark[c]];
                }
            }
            for (auto e = indptr[a]; e < indptr[a + 1]; ++e) mark[indices[e]] = -1;
        }
        for (std::int64_t a = 0; a < n; ++a)
            for (auto e = indptr[a]; e < indptr[a + 1]; ++e) {
                const auto b = indices[e];
                if (before(a, b)) continue;
                const auto* found = std::lower_bound(indices + indptr[b], indices + indptr[b + 1], a);
                count[e] = count[found - indices];
            }
    }
    return to_numpy(std::move(count));
}

void bind_triangles(nb::module_& m) { m.def("common_neighbours", &common_neighbours); }

}  // namespace netfold
