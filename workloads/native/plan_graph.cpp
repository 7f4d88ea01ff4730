// Kernels that cut graphs: the boundary graph out of a partitioned graph, a block's adjacency, and the cut edges of a
// level; and the counting of distinct remote workers that host-based sending needs.
#include "plan_kernels.hpp"

#include <algorithm>
#include <bit>

namespace netfold {
namespace {

// The cross edges of a partitioned graph, over boundary vertices renumbered densely in ascending vertex id.
nb::tuple boundary_graph(Array<std::int64_t> indptr, Array<std::int32_t> indices, Array<std::int32_t> parts) {
    const std::size_t n = parts.shape(0);
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    const auto* part = parts.data();
    Buffer<std::int32_t> boundary, cross_adj;
    Buffer<std::int64_t> cross_ptr;
    {
        nb::gil_scoped_release release;
        std::vector<std::int32_t> index(n, -1);
        std::vector<std::int64_t> degree(n, 0);
        std::size_t count = 0;
        std::int64_t total = 0;
        for (std::size_t v = 0; v < n; ++v) {
            const auto own = part[v];
            std::int64_t d = 0;
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e) d += part[adj[e]] != own;
            degree[v] = d;
            total += d;
            if (d) index[v] = static_cast<std::int32_t>(count++);
        }
        boundary = Buffer<std::int32_t>(count);
        cross_ptr = Buffer<std::int64_t>(count + 1);
        cross_adj = Buffer<std::int32_t>(static_cast<std::size_t>(total));
        std::int64_t out = 0;
        cross_ptr[0] = 0;
        for (std::size_t v = 0; v < n; ++v) {
            if (index[v] < 0) continue;
            boundary[index[v]] = static_cast<std::int32_t>(v);
            const auto own = part[v];
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e)
                if (part[adj[e]] != own) cross_adj[out++] = index[adj[e]];
            cross_ptr[index[v] + 1] = out;
        }
    }
    return nb::make_tuple(boundary.to_numpy(), cross_ptr.to_numpy(), cross_adj.to_numpy());
}

// Degree of each vertex counting only the edges whose two ends carry the same label.
auto kept_degrees(Array<std::int64_t> indptr, Array<std::int32_t> indices, Array<std::int32_t> labels) {
    const std::size_t n = labels.shape(0);
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    const auto* label = labels.data();
    Buffer<std::int32_t> kept(n);
    {
        nb::gil_scoped_release release;
        for (std::size_t v = 0; v < n; ++v) {
            std::int32_t d = 0;
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e) d += label[adj[e]] == label[v];
            kept[v] = d;
        }
    }
    return kept.to_numpy();
}

// Adjacency of the blocks: for the vertices of every block in upload order, the slots of their neighbours in the block,
// ascending. Rows come out sorted without a sort: sources are walked in slot order and the graph is symmetric.
nb::tuple emit_blocks(Array<std::int64_t> indptr, Array<std::int32_t> indices, Array<std::int32_t> labels,
                      Array<std::int32_t> kept, Array<std::int32_t> order, Array<std::int64_t> block_ptr) {
    const std::size_t n = labels.shape(0), total = order.shape(0), blocks = block_ptr.shape(0) - 1;
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    const auto* label = labels.data();
    const auto* degree = kept.data();
    const auto* vertex = order.data();
    const auto* start = block_ptr.data();
    Buffer<std::int64_t> out_ptr(total + 1);
    Buffer<std::int32_t> out_adj;
    {
        nb::gil_scoped_release release;
        std::vector<std::int64_t> fill(n, 0);
        std::int64_t sum = 0;
        out_ptr[0] = 0;
        for (std::size_t t = 0; t < total; ++t) {
            fill[vertex[t]] = sum;
            sum += degree[vertex[t]];
            out_ptr[t + 1] = sum;
        }
        out_adj = Buffer<std::int32_t>(static_cast<std::size_t>(sum));
        for (std::size_t b = 0; b < blocks; ++b) {
            for (auto t = start[b]; t < start[b + 1]; ++t) {
                const auto u = vertex[t];
                const auto slot = static_cast<std::int32_t>(t - start[b]);
                for (auto e = ptr[u]; e < ptr[u + 1]; ++e)
                    if (label[adj[e]] == label[u]) out_adj[fill[adj[e]]++] = slot;
            }
        }
    }
    return nb::make_tuple(out_ptr.to_numpy(), out_adj.to_numpy());
}

// The edges whose ends carry different labels, over the vertices that still have one, renumbered densely in order.
nb::tuple cut_graph(Array<std::int64_t> indptr, Array<std::int32_t> indices, Array<std::int32_t> labels,
                    Array<std::int32_t> kept) {
    const std::size_t n = labels.shape(0);
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    const auto* label = labels.data();
    const auto* degree = kept.data();
    Buffer<std::int32_t> vertices, out_adj;
    Buffer<std::int64_t> out_ptr;
    {
        nb::gil_scoped_release release;
        std::vector<std::int32_t> index(n, -1);
        std::size_t count = 0;
        std::int64_t total = 0;
        for (std::size_t v = 0; v < n; ++v) {
            const auto cut = ptr[v + 1] - ptr[v] - degree[v];
            total += cut;
            if (cut) index[v] = static_cast<std::int32_t>(count++);
        }
        vertices = Buffer<std::int32_t>(count);
        out_ptr = Buffer<std::int64_t>(count + 1);
        out_adj = Buffer<std::int32_t>(static_cast<std::size_t>(total));
        std::int64_t out = 0;
        out_ptr[0] = 0;
        for (std::size_t v = 0; v < n; ++v) {
            if (index[v] < 0) continue;
            vertices[index[v]] = static_cast<std::int32_t>(v);
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e)
                if (label[adj[e]] != label[v]) out_adj[out++] = index[adj[e]];
            out_ptr[index[v] + 1] = out;
        }
    }
    return nb::make_tuple(vertices.to_numpy(), out_ptr.to_numpy(), out_adj.to_numpy());
}

// Distinct owners of each vertex's neighbours, ascending, as a ragged array. Owners are below 65,536.
nb::tuple distinct_owners(Array<std::int64_t> indptr, Array<std::int32_t> indices, Array<std::int32_t> owners,
                          int num_workers) {
    const std::size_t n = indptr.shape(0) - 1;
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    const auto* owner = owners.data();
    Buffer<std::int64_t> out_ptr(n + 1);
    Buffer<std::uint16_t> out;
    {
        nb::gil_scoped_release release;
        std::vector<std::int64_t> seen(static_cast<std::size_t>(num_workers), -1);
        std::vector<std::uint16_t> found;
        out_ptr[0] = 0;
        for (std::size_t v = 0; v < n; ++v) {
            const auto first = found.size();
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e) {
                const auto w = owner[adj[e]];
                if (seen[w] == static_cast<std::int64_t>(v)) continue;
                seen[w] = static_cast<std::int64_t>(v);
                found.push_back(static_cast<std::uint16_t>(w));
            }
            std::sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
            out_ptr[v + 1] = static_cast<std::int64_t>(found.size());
        }
        out = Buffer<std::uint16_t>(found.size());
        std::copy(found.begin(), found.end(), out.data.get());
    }
    return nb::make_tuple(out_ptr.to_numpy(), out.to_numpy());
}

// (vertex, distinct remote worker) pairs over all cross edges of a plan, blocks and residual together.
std::int64_t count_host_sends(Array<std::int32_t> owners, int num_workers, Array<std::int64_t> block_ptr,
                              Array<std::int32_t> block_vertices, Array<std::int64_t> adj_ptr, Array<std::int32_t> adj,
                              Array<std::int64_t> residual_ptr, Array<std::int32_t> residual_adj) {
    const std::size_t n = owners.shape(0), blocks = block_ptr.shape(0) - 1;
    const auto* owner = owners.data();
    nb::gil_scoped_release release;
    const std::size_t words = (static_cast<std::size_t>(num_workers) + 63) / 64;
    std::vector<std::uint64_t> seen(n * words, 0);
    auto mark = [&](std::size_t v, std::int32_t worker) { seen[v * words + worker / 64] |= std::uint64_t{1} << worker % 64; };
    for (std::size_t v = 0; v < n; ++v)
        for (auto e = residual_ptr.data()[v]; e < residual_ptr.data()[v + 1]; ++e) mark(v, owner[residual_adj.data()[e]]);
    for (std::size_t b = 0; b < blocks; ++b) {
        const auto first = block_ptr.data()[b];
        for (auto t = first; t < block_ptr.data()[b + 1]; ++t)
            for (auto e = adj_ptr.data()[t]; e < adj_ptr.data()[t + 1]; ++e)
                mark(static_cast<std::size_t>(block_vertices.data()[t]), owner[block_vertices.data()[first + adj.data()[e]]]);
    }
    std::int64_t count = 0;
    for (const auto word : seen) count += std::popcount(word);
    return count;
}

}  // namespace

void bind_plan_graph(nb::module_& m) {
    m.def("boundary_graph", &boundary_graph, nb::arg("indptr"), nb::arg("indices"), nb::arg("parts"),
          "(boundary int32[nb], ptr int64[nb+1], adj int32[]): the cross edges over boundary indices.");
    m.def("kept_degrees", &kept_degrees, nb::arg("indptr"), nb::arg("indices"), nb::arg("labels"),
          "int32[n]: edges of each vertex whose two ends carry the same label.");
    m.def("emit_blocks", &emit_blocks, nb::arg("indptr"), nb::arg("indices"), nb::arg("labels"), nb::arg("kept"),
          nb::arg("order"), nb::arg("block_ptr"),
          "(ptr int64[T+1], adj int32[]): block-local slots of every upload's neighbours, ascending.");
    m.def("cut_graph", &cut_graph, nb::arg("indptr"), nb::arg("indices"), nb::arg("labels"), nb::arg("kept"),
          "(vertices int32[c], ptr int64[c+1], adj int32[]): the edges between labels, isolated vertices dropped.");
    m.def("distinct_owners", &distinct_owners, nb::arg("indptr"), nb::arg("indices"), nb::arg("owners"),
          nb::arg("num_workers"), "(ptr int64[n+1], owners uint16[]): distinct owners of each vertex's neighbours.");
    m.def("count_host_sends", &count_host_sends, nb::arg("owners"), nb::arg("num_workers"), nb::arg("block_ptr"),
          nb::arg("block_vertices"), nb::arg("adj_ptr"), nb::arg("adj"), nb::arg("residual_ptr"),
          nb::arg("residual_adj"), "(vertex, distinct remote worker) pairs over a plan's blocks and residual.");
}

}  // namespace netfold
