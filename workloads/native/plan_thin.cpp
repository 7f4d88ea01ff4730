// A lighter copy of a dense graph for METIS, whose memory and time follow the number of edges.
#include "plan_kernels.hpp"

#include <algorithm>

namespace netfold {
namespace {

// Keep edge (u, v) with probability p = max(min(1, s/deg u), min(1, s/deg v)), by a coin that both directions share, and
// give it weight 1/p rounded: every cut keeps its expected weight, and no vertex of degree up to s loses an edge. Arrays
// are in METIS's 64-bit width.
nb::tuple thin_graph(Array<std::int64_t> indptr, Array<std::int32_t> indices, double keep, std::uint64_t seed) {
    const std::size_t n = indptr.shape(0) - 1;
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    Buffer<std::int64_t> out_ptr(n + 1), out_adj, out_weight;
    {
        nb::gil_scoped_release release;
        std::vector<double> chance(n);
        for (std::size_t v = 0; v < n; ++v)
            chance[v] = std::min(1.0, keep / static_cast<double>(std::max<std::int64_t>(1, ptr[v + 1] - ptr[v])));
        auto kept = [&](std::size_t u, std::int32_t v) {
            const double p = std::max(chance[u], chance[v]);
            if (p >= 1.0) return true;
            const auto low = std::min<std::uint64_t>(u, static_cast<std::uint64_t>(v));
            const auto high = std::max<std::uint64_t>(u, static_cast<std::uint64_t>(v));
            SplitMix64 coin{seed ^ (low << 32 | high)};
            return static_cast<double>(coin.next() >> 11) * 0x1p-53 < p;
        };
        out_ptr[0] = 0;
        for (std::size_t v = 0; v < n; ++v) {
            std::int64_t count = 0;
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e) count += kept(v, adj[e]);
            out_ptr[v + 1] = out_ptr[v] + count;
        }
        out_adj = Buffer<std::int64_t>(static_cast<std::size_t>(out_ptr[n]));
        out_weight = Buffer<std::int64_t>(static_cast<std::size_t>(out_ptr[n]));
        std::size_t out = 0;
        for (std::size_t v = 0; v < n; ++v) {
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e) {
                if (!kept(v, adj[e])) continue;
                out_adj[out] = adj[e];
                out_weight[out++] = static_cast<std::int64_t>(1.0 / std::max(chance[v], chance[adj[e]]) + 0.5);
            }
        }
    }
    return nb::make_tuple(out_ptr.to_numpy(), out_adj.to_numpy(), out_weight.to_numpy());
}

}  // namespace

void bind_plan_thin(nb::module_& m) {
    m.def("thin_graph", &thin_graph, nb::arg("indptr"), nb::arg("indices"), nb::arg("keep"), nb::arg("seed"),
          "(ptr int64[n+1], adj int64[], weights int64[]): about `keep` edges per vertex, cuts unbiased.");
}

}  // namespace netfold
