// Splitting a level into blocks where METIS does not do it: bringing overfull parts back under capacity, packing along a
// breadth-first walk (the fallback that always makes progress), and a linear-time streaming split.
#include "plan_kernels.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace netfold {
namespace {

// Move the loosest vertices of overfull parts into parts with room, each to where most of its neighbours are.
// Needs num_labels * capacity >= n; then every part fits afterwards.
auto repair_capacity(Array<std::int64_t> indptr, Array<std::int32_t> indices, Array<std::int32_t> labels,
                     int num_labels, std::int64_t capacity) {
    const std::size_t n = labels.shape(0);
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    Buffer<std::int32_t> label(n);
    {
        nb::gil_scoped_release release;
        std::copy(labels.data(), labels.data() + n, label.data.get());
        std::vector<std::int64_t> size(static_cast<std::size_t>(num_labels), 0), near(size);
        for (std::size_t v = 0; v < n; ++v) ++size[label[v]];
        std::vector<std::pair<std::int64_t, std::int32_t>> loose;  // (edges inside its part, vertex)
        for (std::size_t v = 0; v < n; ++v) {
            if (size[label[v]] <= capacity) continue;
            std::int64_t inside = 0;
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e) inside += label[adj[e]] == label[v];
            loose.emplace_back(inside, static_cast<std::int32_t>(v));
        }
        std::sort(loose.begin(), loose.end());
        std::int32_t roomy = 0;  // parts before this one are full
        for (const auto& [inside, v] : loose) {
            if (size[label[v]] <= capacity) continue;
            while (size[roomy] >= capacity) ++roomy;
            std::int32_t best = roomy;
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e) {
                const auto part = label[adj[e]];
                if (size[part] < capacity && (++near[part] > near[best] || (near[part] == near[best] && part < best)))
                    best = part;
            }
            for (auto e = ptr[v]; e < ptr[v + 1]; ++e) near[label[adj[e]]] = 0;
            --size[label[v]];
            ++size[best];
            label[v] = best;
        }
    }
    return label.to_numpy();
}

// Replace every part marked `repack` by bins filled along a breadth-first walk of the part. A bin has at most
// `most_vertices`, and vertices * vertex_cost + (directed edges inside) * edge_cost stays within `budget`; the caller has
// checked that two joined vertices fit. The walk's second vertex is a neighbour of its first, so the first bin keeps at least one edge:
// this is what guarantees that a level makes progress. Returns (labels, number of labels).
nb::tuple pack_bins(Array<std::int64_t> indptr, Array<std::int32_t> indices, Array<std::int32_t> labels,
                    Array<std::uint8_t> repack, std::int64_t most_vertices, std::int64_t budget,
                    std::int64_t vertex_cost, std::int64_t edge_cost) {
    const std::size_t n = labels.shape(0);
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    const auto* old = labels.data();
    Buffer<std::int32_t> label(n);
    std::int32_t next = static_cast<std::int32_t>(repack.shape(0));
    {
        nb::gil_scoped_release release;
        // Walk components by part, not by vertex id, so that a bin is never shared by two old parts.
        std::vector<std::int32_t> roots;
        for (std::size_t v = 0; v < n; ++v) {
            label[v] = repack.data()[old[v]] ? -1 : old[v];
            if (label[v] < 0) roots.push_back(static_cast<std::int32_t>(v));
        }
        std::stable_sort(roots.begin(), roots.end(), [&](auto a, auto b) { return old[a] < old[b]; });
        std::vector<char> queued(n, 0);
        std::vector<std::int32_t> queue;
        std::int64_t cost = 0, count = 0;
        std::int32_t part = -1;
        for (const auto root : roots) {
            if (queued[root]) continue;
            if (old[root] != part) {
                part = old[root];
                if (count) ++next;
                cost = count = 0;
            }
            queue.assign(1, root);
            queued[root] = 1;
            for (std::size_t head = 0; head < queue.size(); ++head) {
                const auto v = queue[head];
                std::int64_t inside = 0;
                for (auto e = ptr[v]; e < ptr[v + 1]; ++e) {
                    const auto u = adj[e];
                    if (old[u] != part) continue;
                    inside += label[u] == next;
                    if (queued[u]) continue;
                    queued[u] = 1;
                    queue.push_back(u);
                }
                auto more = vertex_cost + 2 * inside * edge_cost;
                if (cost + more > budget || count == most_vertices) {
                    ++next;
                    cost = count = 0;
                    more = vertex_cost;
                }
                cost += more;
                ++count;
                label[v] = next;
            }
        }
        if (count) ++next;
    }
    return nb::make_tuple(label.to_numpy(), next);
}

// Balanced split by restreaming linear deterministic greedy (Stanton, Kliot, KDD 2012; Nishimura, Ugander, KDD 2013):
// vertices pass by in a seeded random order and each joins the part with most of its neighbours, weighted by the room
// left; later passes use the labels of the pass before. O(passes * E). Parts never exceed `capacity`.
auto stream_split(Array<std::int64_t> indptr, Array<std::int32_t> indices, int num_labels, std::int64_t capacity,
                  int passes, std::uint64_t seed) {
    const std::size_t n = indptr.shape(0) - 1;
    const auto k = static_cast<std::size_t>(num_labels);
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    Buffer<std::int32_t> label(n);
    {
        nb::gil_scoped_release release;
        std::fill(label.data.get(), label.data.get() + n, -1);
        std::vector<std::int32_t> walk(n);
        std::iota(walk.begin(), walk.end(), 0);
        SplitMix64 random{seed};
        shuffle(walk.data(), n, random);
        std::vector<std::int32_t> near(k, 0), size(k), touched;
        for (int pass = 0; pass < passes; ++pass) {
            std::fill(size.begin(), size.end(), 0);
            std::int32_t roomy = 0;
            for (std::size_t i = 0; i < n; ++i) {
                const auto v = walk[i];
                touched.clear();
                for (auto e = ptr[v]; e < ptr[v + 1]; ++e) {
                    const auto part = label[adj[e]];
                    if (part >= 0 && near[part]++ == 0) touched.push_back(part);
                }
                double best_score = 0;
                std::int32_t best = -1;
                for (const auto part : touched) {
                    const double score = near[part] * (1.0 - static_cast<double>(size[part]) / static_cast<double>(capacity));
                    if (score > best_score || (score == best_score && best >= 0 && part < best)) {
                        best_score = score;
                        best = part;
                    }
                    near[part] = 0;
                }
                if (best < 0) {  // no labelled neighbour with room: round robin over parts with room
                    for (roomy = (roomy + 1) % num_labels; size[roomy] >= capacity;) roomy = (roomy + 1) % num_labels;
                    best = roomy;
                }
                ++size[best];
                label[v] = best;
            }
        }
    }
    return label.to_numpy();
}

}  // namespace

void bind_plan_split(nb::module_& m) {
    m.def("repair_capacity", &repair_capacity, nb::arg("indptr"), nb::arg("indices"), nb::arg("labels"),
          nb::arg("num_labels"), nb::arg("capacity"), "int32[n]: labels with no part above capacity vertices.");
    m.def("pack_bins", &pack_bins, nb::arg("indptr"), nb::arg("indices"), nb::arg("labels"), nb::arg("repack"),
          nb::arg("most_vertices"), nb::arg("budget"), nb::arg("vertex_cost"), nb::arg("edge_cost"),
          "(labels int32[n], number of labels): parts marked in repack uint8[k] replaced by bins within budget.");
    m.def("stream_split", &stream_split, nb::arg("indptr"), nb::arg("indices"), nb::arg("num_labels"),
          nb::arg("capacity"), nb::arg("passes"), nb::arg("seed"),
          "int32[n]: a balanced split by restreaming greedy; num_labels * capacity must be at least n.");
}

}  // namespace netfold
