// Random graphs: the degree-corrected stochastic block model of the stand-ins, and R-MAT.
#include "arrays.hpp"
#include "csr.hpp"
#include "random.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <unordered_set>

namespace netfold {
namespace {

using Progress = std::optional<std::function<void(std::int64_t)>>;
using Tick = std::function<void(std::int64_t)>;
using Half = std::vector<std::int32_t>;

constexpr std::uint64_t kShuffleStream = 1;
constexpr std::uint64_t kEdgeStream = 2;
constexpr std::uint64_t kTopUpStream = 3;
constexpr std::uint64_t kFeatureStream = 4;
constexpr std::uint64_t kCentreStream = 5;
constexpr std::int64_t kReportEvery = 1 << 20;
// Draws per missing edge before the model is called saturated.
constexpr std::int64_t kMaxDrawsPerEdge = 64;

void report(const Progress& progress, std::int64_t done) {
    if (!progress) return;
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    (*progress)(done);
}

// Walker's alias method with whole-number weights, so that no rounding differs between machines.
class Alias {
public:
    Alias(const std::vector<std::int32_t>& members, const std::int64_t* weight) : slots_(members.size()) {
        const std::size_t k = members.size();
        for (std::int32_t v : members) total_ += weight[v];
        if (k == 0 || total_ <= 0 || total_ > std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(k))
            throw std::invalid_argument("weights must be positive and their sum times their number fit 63 bits");
        std::vector<std::size_t> small, large;
        for (std::size_t i = 0; i < k; ++i) {
            slots_[i] = {weight[members[i]] * static_cast<std::int64_t>(k), members[i], members[i]};
            (slots_[i].cut < total_ ? small : large).push_back(i);
        }
        while (!small.empty() && !large.empty()) {
            const std::size_t s = small.back(), l = large.back();
            small.pop_back();
            slots_[s].other = slots_[l].own;
            slots_[l].cut -= total_ - slots_[s].cut;
            if (slots_[l].cut < total_) {
                large.pop_back();
                small.push_back(l);
            }
        }
    }

    std::int32_t draw(const CounterRandom& random, std::uint64_t counter) const {
        const Slot& slot = slots_[random.below(counter, slots_.size())];
        const auto point = static_cast<std::int64_t>(random.below(counter + 1, static_cast<std::uint64_t>(total_)));
        return point < slot.cut ? slot.own : slot.other;
    }

private:
    // One cache line per draw, not one per array.
    struct Slot {
        std::int64_t cut;
        std::int32_t own;
        std::int32_t other;
    };

    std::vector<Slot> slots_;
    std::int64_t total_ = 0;
};

// Draws edges: one end by weight, the other by weight inside the first one's block or in the whole graph.
class Model {
public:
    Model(const In<std::int64_t>& weight, const In<std::int32_t>& block, std::int32_t blocks)
        : block_(block.data()), all_(everyone(weight.shape(0)), weight.data()) {
        std::vector<std::vector<std::int32_t>> members(static_cast<std::size_t>(blocks));
        for (std::size_t v = 0; v < weight.shape(0); ++v)
            members.at(static_cast<std::size_t>(block_[v])).push_back(static_cast<std::int32_t>(v));
        for (const auto& list : members) own_.emplace_back(list, weight.data());
    }

    bool inside(std::int32_t u, std::int32_t v) const { return block_[u] == block_[v]; }

    // `share` of 2^32 is the probability that the second end is looked for inside the first one's block.
    std::pair<std::int32_t, std::int32_t> draw(const CounterRandom& random, std::uint64_t edge,
                                               std::uint64_t share) const {
        const std::uint64_t counter = 5 * edge;
        const std::int32_t u = all_.draw(random, counter);
        const bool own = (random(counter + 2) >> 32) < share;
        const Alias& where = own ? own_[static_cast<std::size_t>(block_[u])] : all_;
        return {u, where.draw(random, counter + 3)};
    }

private:
    static std::vector<std::int32_t> everyone(std::size_t n) {
        std::vector<std::int32_t> all(n);
        std::iota(all.begin(), all.end(), 0);
        return all;
    }

    const std::int32_t* block_;
    Alias all_;
    std::vector<Alias> own_;
};

bool has_edge(const Csr& csr, std::int32_t u, std::int32_t v) {
    const auto row = csr.indices.begin();
    return std::binary_search(row + csr.indptr[u], row + csr.indptr[u + 1], v);
}

// The union of two graphs on the same vertices.
Csr merged(const Csr& a, const Csr& b) {
    Csr both;
    both.indptr.resize(a.indptr.size());
    both.indices.resize(a.indices.size() + b.indices.size());
    auto out = both.indices.begin();
    for (std::size_t v = 0; v + 1 < a.indptr.size(); ++v) {
        out = std::set_union(a.indices.begin() + a.indptr[v], a.indices.begin() + a.indptr[v + 1],
                         b.indices.begin() + b.indptr[v], b.indices.begin() + b.indptr[v + 1], out);
        both.indptr[v + 1] = out - both.indices.begin();
    }
    both.indices.resize(static_cast<std::size_t>(both.indptr.back()));
    return both;
}

std::int64_t edges_inside(const Csr& csr, const Model& model) {
    std::int64_t twice = 0;
    for (std::size_t u = 0; u + 1 < csr.indptr.size(); ++u)
        for (std::int64_t e = csr.indptr[u]; e < csr.indptr[u + 1]; ++e)
            twice += model.inside(static_cast<std::int32_t>(u), csr.indices[static_cast<std::size_t>(e)]);
    return twice / 2;
}

// Adds edges that a graph lacks, so that loops and duplicates among those drawn before are made up for.
class TopUp {
public:
    TopUp(const Model& model, std::uint64_t seed) : model_(model), random_(seed, kTopUpStream) {}

    // Adds `wanted` edges, or fewer when the model is saturated. inside: only edges inside a block, or (false) only
    // edges between blocks; nothing: either. tick is called with the number still wanted.
    void add(Csr& csr, std::int64_t wanted, std::optional<bool> inside, const Tick& tick) {
        const std::int64_t goal = edges_of(csr) + wanted;
        const std::int64_t few = goal / 200;
        // As many draws as edges are wanted cannot give too many: sorted in bulk, most of the way goes quickly.
        for (std::int64_t missing = wanted; missing > few;) {
            Half source, target;
            for (std::int64_t i = 0; i < missing; ++i) {
                if (i % kReportEvery == 0) tick(missing);
                const auto [u, v] = draw(inside);
                if (inside && model_.inside(u, v) != *inside) continue;
                source.push_back(u);
                target.push_back(v);
            }
            const std::int64_t before = missing;
            csr = merged(csr, sorted(source, target, csr));
            missing = goal - edges_of(csr);
            if (before - missing < before / kMaxDrawsPerEdge) break;
        }
        one_by_one(csr, goal, inside, tick);
    }

private:
    static std::int64_t edges_of(const Csr& csr) { return static_cast<std::int64_t>(csr.indices.size() / 2); }

    static Csr sorted(const Half& source, const Half& target, const Csr& like) {
        const std::int64_t n = static_cast<std::int64_t>(like.indptr.size()) - 1;
        return build_csr<std::int32_t>({{source.data(), target.data(), source.size()}}, n);
    }

    std::pair<std::int32_t, std::int32_t> draw(std::optional<bool> inside) {
        return model_.draw(random_, drawn_++, inside.value_or(false) ? std::uint64_t{1} << 32 : 0);
    }

    // The last edges, to the exact number.
    void one_by_one(Csr& csr, std::int64_t goal, std::optional<bool> inside, const Tick& tick) {
        std::int64_t missing = goal - edges_of(csr);
        std::unordered_set<std::uint64_t> seen;
        Half source, target;
        for (std::int64_t i = 0, limit = missing * kMaxDrawsPerEdge; i < limit && missing > 0; ++i) {
            if (i % kReportEvery == 0) tick(missing);
            auto [u, v] = draw(inside);
            if (u > v) std::swap(u, v);
            if (u == v || (inside && model_.inside(u, v) != *inside) || has_edge(csr, u, v)) continue;
            if (!seen.insert(static_cast<std::uint64_t>(u) << 32 | static_cast<std::uint32_t>(v)).second) continue;
            source.push_back(u);
            target.push_back(v);
            --missing;
        }
        if (!source.empty()) csr = merged(csr, sorted(source, target, csr));
    }

    const Model& model_;
    CounterRandom random_;
    std::uint64_t drawn_ = 0;
};

// The model drawn until the simple graph has `edges` undirected edges, `inside` of them inside a block, or until it
// is saturated: when the blocks are full the rest goes between them. inside < 0: blocks do not matter.
// progress gets 0..3 * edges: drawing, sorting, and drawing what is missing take about as long each.
// Returns (indptr, indices, edges inside a block).
nb::tuple block_model(const In<std::int64_t>& weight, const In<std::int32_t>& block, std::int32_t blocks,
                      std::int64_t edges, std::int64_t inside, std::uint64_t seed, const Progress& progress) {
    const std::int64_t n = static_cast<std::int64_t>(weight.shape(0));
    if (block.shape(0) != weight.shape(0)) throw std::invalid_argument("one block and one weight per vertex");
    if (inside > edges) throw std::invalid_argument("more edges inside the blocks than edges");
    Csr csr;
    std::int64_t got_inside = 0;
    {
        nb::gil_scoped_release release;
        const Model model(weight, block, blocks);
        // An edge drawn in the whole graph falls into its own block by chance, about once in `blocks`.
        const std::int64_t outside = edges - inside;
        const std::int64_t whole = inside < 0 ? edges : std::min(edges, outside + outside / std::max(blocks - 1, 1));
        Half source(static_cast<std::size_t>(edges)), target(static_cast<std::size_t>(edges));
        const CounterRandom random(seed, kEdgeStream);
        for (std::int64_t e = 0; e < edges; ++e) {
            const std::uint64_t share = e < whole ? 0 : std::uint64_t{1} << 32;
            std::tie(source[e], target[e]) = model.draw(random, static_cast<std::uint64_t>(e), share);
            if (e % kReportEvery == 0) report(progress, e);
        }
        csr = build_csr<std::int32_t>({{source.data(), target.data(), source.size()}}, n);
        source = Half();
        target = Half();
        report(progress, 2 * edges);

        // Loops and duplicates were dropped: draw on until the counts are right.
        const auto tick = [&](std::int64_t wanted) { report(progress, 3 * edges - wanted); };
        TopUp more(model, seed);
        const auto missing = [&] { return edges - static_cast<std::int64_t>(csr.indices.size() / 2); };
        if (inside >= 0)
            more.add(csr, std::clamp<std::int64_t>(inside - edges_inside(csr, model), 0, missing()), true, tick);
        more.add(csr, missing(), inside >= 0 && blocks > 1 ? std::optional<bool>(false) : std::nullopt, tick);
        got_inside = edges_inside(csr, model);
    }
    return nb::make_tuple(to_numpy(std::move(csr.indptr)), to_numpy(std::move(csr.indices)), got_inside);
}

// R-MAT (Chakrabarti, Zhan and Faloutsos, SDM 2004) with Graph500's quadrants 0.57, 0.19, 0.19, 0.05.
nb::tuple rmat(std::int32_t scale, std::int64_t edges, std::uint64_t seed, const Progress& progress) {
    constexpr std::uint64_t kA = 2448131358ULL;         // 0.57 * 2^32
    constexpr std::uint64_t kAb = kA + 816043786ULL;    // + 0.19
    constexpr std::uint64_t kAbc = kAb + 816043786ULL;  // + 0.19
    Csr csr;
    {
        nb::gil_scoped_release release;
        Half source(static_cast<std::size_t>(edges)), target(static_cast<std::size_t>(edges));
        const CounterRandom random(seed, kEdgeStream);
        const std::uint64_t stride = static_cast<std::uint64_t>(scale + 1) / 2;
        for (std::int64_t e = 0; e < edges; ++e) {
            if (e % kReportEvery == 0) report(progress, e);
            std::uint32_t u = 0, v = 0;
            for (std::int32_t bit = 0; bit < scale; ++bit) {
                const auto counter = static_cast<std::uint64_t>(e) * stride + static_cast<std::uint64_t>(bit / 2);
                const std::uint64_t word = random(counter);
                const std::uint64_t r = bit % 2 ? word >> 32 : word & 0xffffffffULL;
                u = u << 1 | (r >= kAb);
                v = v << 1 | ((r >= kA && r < kAb) || r >= kAbc);
            }
            source[e] = static_cast<std::int32_t>(u);
            target[e] = static_cast<std::int32_t>(v);
        }
        csr = build_csr<std::int32_t>({{source.data(), target.data(), source.size()}}, std::int64_t{1} << scale);
    }
    return nb::make_tuple(to_numpy(std::move(csr.indptr)), to_numpy(std::move(csr.indices)));
}

// A random order of 0..n-1 (Fisher-Yates).
nb::ndarray<nb::numpy, std::int32_t> permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const CounterRandom random(seed, mix64(kShuffleStream + stream));
    for (std::int64_t i = n - 1; i > 0; --i)
        std::swap(order[i], order[random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(i) + 1)]);
    return to_numpy(std::move(order));
}

// float32[n, width]: a centre per block plus noise of the same variance, both sums of four 16-bit uniforms
// (exact in floating point, so the same everywhere), scaled to variance 1/2 each.
nb::ndarray<nb::numpy, float> block_features(const In<std::int32_t>& block, std::int64_t width, std::uint64_t seed) {
    const std::size_t n = block.shape(0), w = static_cast<std::size_t>(width);
    std::vector<float> features(n * w);
    {
        nb::gil_scoped_release release;
        const CounterRandom noise(seed, kFeatureStream), centre(seed, kCentreStream);
        // Four uniforms on 0..65535 have standard deviation 37837.2; 0.70711 / 37837.2 = 1.8688e-5.
        const auto normal = [](std::uint64_t r) {
            const std::uint64_t uniforms = (r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48);
            const auto sum = static_cast<std::int64_t>(uniforms);
            return static_cast<float>(sum - 131070) * 1.8688e-5f;
        };
        for (std::size_t v = 0; v < n; ++v)
            for (std::size_t j = 0; j < w; ++j)
                features[v * w + j] =
                    normal(noise(v * w + j)) + normal(centre(static_cast<std::uint64_t>(block.data()[v]) * w + j));
    }
    return to_numpy(std::move(features), {n, w});
}

}  // namespace

void bind_generate(nb::module_& m) {
    m.def("block_model", &block_model, nb::arg("weights"), nb::arg("blocks"), nb::arg("num_blocks"), nb::arg("edges"),
          nb::arg("inside"), nb::arg("seed"), nb::arg("progress") = nb::none());
    m.def("rmat", &rmat, nb::arg("scale"), nb::arg("edges"), nb::arg("seed"), nb::arg("progress") = nb::none());
    m.def("permutation", &permutation, nb::arg("n"), nb::arg("seed"), nb::arg("stream"));
    m.def("block_features", &block_features, nb::arg("blocks"), nb::arg("width"), nb::arg("seed"));
}

}  // namespace netfold
