// Upload orders: GAMR's priority BFS, by degree, and random, for all blocks of a level at once.
#include "plan_kernels.hpp"

#include <algorithm>


namespace netfold {
namespace {

enum Mode : int { kGamr = 0, kDegree = 1, kRandom = 2 };

// One frontier entry: highest degree first, and among equals the one found first, as in a plain BFS.
struct Found {
    std::int32_t degree;
    std::uint32_t sequence;
    std::int32_t vertex;
    bool operator<(const Found& other) const {
        return degree != other.degree ? degree < other.degree : sequence > other.sequence;
    }
};

// The vertices with a kept edge, block by block (ascending label), each block in upload order.
//
// GAMR (SwitchGNN, ATC'25, "priority-based BFS"): a random root; then always the found vertex of highest degree within
// the block. Each vertex enters the heap once, each edge is looked at once: O(E + V log V). When a component is
// exhausted the next random vertex not yet reached is a root. Every mode starts from one seeded shuffle of the block, so
// ties and roots depend on the seed only.
nb::tuple order_blocks(Array<std::int64_t> indptr, Array<std::int32_t> indices, Array<std::int32_t> labels,
                       Array<std::int32_t> kept, int num_labels, int mode, std::uint64_t seed) {
    const std::size_t n = labels.shape(0);
    const auto* ptr = indptr.data();
    const auto* adj = indices.data();
    const auto* label = labels.data();
    const auto* degree = kept.data();
    Buffer<std::int32_t> order;
    std::vector<std::int64_t> starts{0};
    {
        nb::gil_scoped_release release;
        std::vector<std::int64_t> fill(static_cast<std::size_t>(num_labels) + 1, 0);
        for (std::size_t v = 0; v < n; ++v)
            if (degree[v]) ++fill[label[v] + 1];
        for (int b = 0; b < num_labels; ++b) {
            fill[b + 1] += fill[b];
            if (fill[b + 1] > fill[b]) starts.push_back(fill[b + 1]);
        }
        std::vector<std::int32_t> members(static_cast<std::size_t>(starts.back()));
        for (std::size_t v = 0; v < n; ++v)
            if (degree[v]) members[fill[label[v]]++] = static_cast<std::int32_t>(v);
        order = Buffer<std::int32_t>(members.size());
        std::vector<char> found(mode == kGamr ? n : 0, 0);
        std::vector<Found> storage;
        SplitMix64 random{seed};
        for (std::size_t b = 0; b + 1 < starts.size(); ++b) {
            auto* first = members.data() + starts[b];
            const auto size = static_cast<std::size_t>(starts[b + 1] - starts[b]);
            auto* out = order.data.get() + starts[b];
            shuffle(first, size, random);
            if (mode == kDegree)
                std::stable_sort(first, first + size, [&](auto x, auto y) { return degree[x] > degree[y]; });
            if (mode != kGamr) {
                std::copy(first, first + size, out);
                continue;
            }
            std::uint32_t sequence = 0;
            for (std::size_t i = 0; i < size; ++i) {
                if (found[first[i]]) continue;
                found[first[i]] = 1;
                storage.clear();
                storage.push_back({degree[first[i]], sequence++, first[i]});
                while (!storage.empty()) {
                    std::pop_heap(storage.begin(), storage.end());
                    const auto v = storage.back().vertex;
                    storage.pop_back();
                    *out++ = v;
                    for (auto e = ptr[v]; e < ptr[v + 1]; ++e) {
                        const auto u = adj[e];
                        if (label[u] != label[v] || found[u]) continue;
                        found[u] = 1;
                        storage.push_back({degree[u], sequence++, u});
                        std::push_heap(storage.begin(), storage.end());
                    }
                }
            }
        }
    }
    Buffer<std::int64_t> block_ptr(starts.size());
    std::copy(starts.begin(), starts.end(), block_ptr.data.get());
    return nb::make_tuple(order.to_numpy(), block_ptr.to_numpy());
}

}  // namespace

void bind_plan_order(nb::module_& m) {
    m.def("order_blocks", &order_blocks, nb::arg("indptr"), nb::arg("indices"), nb::arg("labels"), nb::arg("kept"),
          nb::arg("num_labels"), nb::arg("mode"), nb::arg("seed"),
          "(order int32[T], block_ptr int64[B+1]); mode 0 gamr, 1 degree, 2 random; vertices without a kept edge left out.");
}

}  // namespace netfold
