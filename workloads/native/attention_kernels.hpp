// Fused attention over pairs, tiles or everything: scores, softmax and weighted sum of a query without any of them
// being stored, as FlashAttention does (Dao et al., NeurIPS 2022); the backward pass computes the scores again.
// Compiled once per instruction set with -ffast-math, so "no pair" is a large finite number and not infinity.
#include "attention_isa.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

namespace netfold::NETFOLD_ISA {
namespace {

template <typename T>
constexpr T kNever = T(-1e30);

// e^x of x <= 0 or a little above; 0 below -87. float: Cephes' expf, within 2 units in the last place.
inline float exponential(float x) {
    const float at = std::max(x, -87.0f);
    const float n = static_cast<float>(static_cast<std::int32_t>(at * 1.44269504f - 0.5f));
    float r = at - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const auto power = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
    return x < -87.0f ? 0.0f : p * power;
}

inline double exponential(double x) { return x < -700 ? 0 : std::exp(x); }

template <typename T, int W>
inline T dot(const T* a, const T* b, std::int64_t width) {
    const std::int64_t w = W ? W : width;
    T sum = 0;
    for (std::int64_t d = 0; d < w; ++d) sum += a[d] * b[d];
    return sum;
}

// Whole vectors: loops over a multiple of these need no remainder.
constexpr std::int64_t kLanes = 8;

inline std::int64_t padded(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

template <typename T, int W>
inline void add(T* to, T factor, const T* from, std::int64_t width) {
    const std::int64_t w = W ? W : width;
    for (std::int64_t d = 0; d < w; ++d) to[d] += factor * from[d];
}

// to += sum of weights[j] * rows[index(j)]; four sums side by side, so that one need not wait for the other.
template <typename T, int W, typename Index>
inline __attribute__((always_inline)) void add_all(T* to, const T* weights, std::int64_t n, const T* rows,
                                                   Index index, std::int64_t width) {
    if constexpr (W > 0) {
        T a[W] = {}, b[W] = {}, c[W] = {}, e[W] = {};
        std::int64_t j = 0;
        for (; j + 4 <= n; j += 4) {
            add<T, W>(a, weights[j], rows + index(j) * W, W);
            add<T, W>(b, weights[j + 1], rows + index(j + 1) * W, W);
            add<T, W>(c, weights[j + 2], rows + index(j + 2) * W, W);
            add<T, W>(e, weights[j + 3], rows + index(j + 3) * W, W);
        }
        for (; j < n; ++j) add<T, W>(a, weights[j], rows + index(j) * W, W);
        for (int d = 0; d < W; ++d) to[d] += (a[d] + b[d]) + (c[d] + e[d]);
    } else {
        for (std::int64_t j = 0; j < n; ++j) add<T, W>(to, weights[j], rows + index(j) * width, width);
    }
}

// float[blocks, w, B] from float[n, w]: the columns of a tile lie beside each other, zeros after the last.
template <typename T, int B>
std::vector<T> turned_blocks(const T* rows, std::int64_t n, std::int64_t w) {
    std::vector<T> result(static_cast<std::size_t>((n + B - 1) / B * B * w), T(0));
    for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t d = 0; d < w; ++d) result[(j / B * w + d) * B + j % B] = rows[j * w + d];
    return result;
}

// Running softmax of each query: top, the highest score so far, sum of exponentials below it, and out, the
// weighted sum of values.
template <typename T, int W>
struct Running {
    T* out;
    T* top;
    T* sum;
    std::int64_t width;

    // Takes n scores with their values at v[index(j)]; scores has room up to padded(n), which is overwritten.
    template <typename Index>
    inline __attribute__((always_inline)) void take(std::int64_t i, T* scores, std::int64_t n, const T* v,
                                                    Index index) {
        const std::int64_t w = W ? W : width, all = padded(n);
        for (auto j = n; j < all; ++j) scores[j] = kNever<T>;
        T lane[kLanes];
        for (int l = 0; l < kLanes; ++l) lane[l] = scores[l];
        for (std::int64_t j = kLanes; j < all; j += kLanes)
            for (int l = 0; l < kLanes; ++l) lane[l] = std::max(lane[l], scores[j + l]);
        T highest = lane[0];
        for (int l = 1; l < kLanes; ++l) highest = std::max(highest, lane[l]);
        if (highest <= kNever<T> / 2) return;
        highest = std::max(highest, top[i]);
        for (int l = 0; l < kLanes; ++l) lane[l] = 0;
        for (std::int64_t j = 0; j < all; j += kLanes)
            for (int l = 0; l < kLanes; ++l) lane[l] += scores[j + l] = exponential(scores[j + l] - highest);
        T total = 0;
        for (int l = 0; l < kLanes; ++l) total += lane[l];
        const T fade = exponential(top[i] - highest);
        top[i] = highest;
        sum[i] = sum[i] * fade + total;
        T* row = out + i * w;
        for (std::int64_t d = 0; d < w; ++d) row[d] *= fade;
        add_all<T, W>(row, scores, n, v, index, w);
    }
};

template <typename T>
T scale_of(const Head<T>& head) {
    return T(1) / std::sqrt(static_cast<T>(head.width));
}

// Adds ds to the bias's gradient by class; four tables, so that equal neighbours do not wait for each other.
template <typename T>
struct Histogram {
    T parts[4][32] = {};
    void add(std::int64_t lane, int at, T value) { parts[lane & 3][at] += value; }
    void collect(T* dtable) const {
        for (int c = 0; c < kClasses; ++c) dtable[c] += parts[0][c] + parts[1][c] + parts[2][c] + parts[3][c];
    }
};

template <typename T, int W>
void forward_pairs(const Head<T>& head, Running<T, W>& running) {
    const std::int64_t w = W ? W : head.width;
    const T scale = scale_of(head);
    std::vector<T> scores;
    for (std::int64_t i = 0; i < head.rows; ++i) {
        const auto first = head.indptr[i], n = head.indptr[i + 1] - first;
        if (n == 0) continue;
        scores.resize(static_cast<std::size_t>(padded(n)));
        const auto* column = head.indices + first;
        for (std::int64_t j = 0; j < n; ++j)
            scores[j] = scale * dot<T, W>(head.q + i * w, head.k + column[j] * w, w) +
                        head.table[head.classes[first + j]];
        running.take(i, scores.data(), n, head.v, [&](std::int64_t j) { return std::int64_t(column[j]); });
    }
}

template <typename T, int W>
void backward_pairs(const Head<T>& head, const Gradients<T>& g, const T* delta) {
    const std::int64_t w = W ? W : head.width;
    const T scale = scale_of(head);
    Histogram<T> histogram;
    std::vector<T> weights, ds;
    for (std::int64_t i = 0; i < head.rows; ++i) {
        const auto first = head.indptr[i], n = head.indptr[i + 1] - first;
        if (n == 0) continue;
        const auto all = padded(n);
        weights.resize(static_cast<std::size_t>(all));
        ds.resize(static_cast<std::size_t>(all));
        const auto* column = head.indices + first;
        const auto at = [&](std::int64_t j) { return std::int64_t(column[j]); };
        const T *q = head.q + i * w, *grad = g.grad + i * w;
        for (std::int64_t j = 0; j < n; ++j) {
            weights[j] = scale * dot<T, W>(q, head.k + at(j) * w, w) + head.table[head.classes[first + j]];
            ds[j] = dot<T, W>(grad, head.v + at(j) * w, w);
        }
        for (auto j = n; j < all; ++j) weights[j] = kNever<T>;
        const T lse = g.lse[i], own = delta[i];
        for (std::int64_t j = 0; j < all; j += kLanes)
            for (int l = 0; l < kLanes; ++l) {
                weights[j + l] = exponential(weights[j + l] - lse);
                ds[j + l] = weights[j + l] * (ds[j + l] - own);
            }
        for (std::int64_t j = 0; j < n; ++j) {
            histogram.add(j, head.classes[first + j], ds[j]);
            ds[j] *= scale;
            add<T, W>(g.dk + at(j) * w, ds[j], q, w);
            add<T, W>(g.dv + at(j) * w, weights[j], grad, w);
        }
        add_all<T, W>(g.dq + i * w, ds.data(), n, head.k, at, w);
    }
    histogram.collect(g.dtable);
}

// The blocks of B x B that a head computes, one after the other: `each(i0, c0, bias, note)` is called with the
// bias of every place, and note(i, j-th ds) is to be told the gradients.
template <typename T, int B, typename Each>
void each_tile(const Head<T>& head, Each each) {
    T lookup[32];
    std::copy(head.table, head.table + kClasses, lookup);
    lookup[0] = kNever<T>;
    T bias[B][B];
    const std::int64_t blocks = (head.rows + B - 1) / B;
    for (std::int64_t block = 0; block < blocks; ++block)
        for (auto t = head.tile_ptr[block]; t < head.tile_ptr[block + 1]; ++t) {
            const auto* classes = head.tile_classes + t * B * B;
            for (int at = 0; at < B * B; ++at) bias[at / B][at % B] = lookup[classes[at]];
            each(block * B, std::int64_t(head.tile_columns[t]) * B, bias,
                 [&](Histogram<T>& histogram, int i, const T* ds) {
                     for (int j = 0; j < B; ++j) histogram.add(j, classes[i * B + j], ds[j]);
                 });
        }
}

// The same over all places, with the listed pairs' classes where there are any.
template <typename T, int B, typename Each>
void each_place(const Head<T>& head, Each each) {
    T bias[B][B];
    std::int64_t cursor[B];
    for (std::int64_t i0 = 0; i0 < head.rows; i0 += B) {
        const int rows = static_cast<int>(std::min<std::int64_t>(B, head.rows - i0));
        std::copy(head.indptr + i0, head.indptr + i0 + rows, cursor);
        for (std::int64_t c0 = 0; c0 < head.columns; c0 += B) {
            const auto last = std::min<std::int64_t>(c0 + B, head.columns);
            std::int64_t before[B];
            for (int i = 0; i < rows; ++i) {
                for (int j = 0; j < B; ++j) bias[i][j] = c0 + j < last ? head.table[kOutside] : kNever<T>;
                auto& at = cursor[i];
                before[i] = at;
                for (; at < head.indptr[i0 + i + 1] && head.indices[at] < last; ++at)
                    bias[i][head.indices[at] - c0] = head.table[head.classes[at]];
            }
            each(i0, c0, bias, [&](Histogram<T>& histogram, int i, const T* ds) {
                T total = 0;
                for (int j = 0; j < B; ++j) total += ds[j];
                for (auto at = before[i]; at < cursor[i]; ++at) {
                    const T one = ds[head.indices[at] - c0];
                    histogram.add(at, head.classes[at], one);
                    total -= one;
                }
                histogram.add(i, kOutside, total);
            });
        }
    }
}

template <typename T, int W, int B>
inline void scores_of(T* row, const T* factors, T scale, const T* turned, std::int64_t width) {
    const std::int64_t w = W ? W : width;
    for (int j = 0; j < B; ++j) row[j] = 0;
    for (std::int64_t d = 0; d < w; ++d) {
        const T factor = scale * factors[d];
        for (int j = 0; j < B; ++j) row[j] += factor * turned[d * B + j];
    }
}

template <typename T, int W, int B>
void forward_blocks(const Head<T>& head, Running<T, W>& running) {
    const std::int64_t w = W ? W : head.width;
    const auto keys = turned_blocks<T, B>(head.k, head.columns, w);
    const T scale = scale_of(head);
    const auto step = [&](std::int64_t i0, std::int64_t c0, const T(*bias)[B], auto) {
        const int rows = static_cast<int>(std::min<std::int64_t>(B, head.rows - i0));
        const auto columns = std::min<std::int64_t>(B, head.columns - c0);
        for (int i = 0; i < rows; ++i) {
            T row[B];
            scores_of<T, W, B>(row, head.q + (i0 + i) * w, scale, keys.data() + c0 * w, w);
            for (int j = 0; j < B; ++j) row[j] += bias[i][j];
            const auto at = [&](std::int64_t j) { return c0 + j; };
            if (columns == B)
                running.take(i0 + i, row, B, head.v, at);
            else
                running.take(i0 + i, row, columns, head.v, at);
        }
    };
    if (head.full)
        each_place<T, B>(head, step);
    else
        each_tile<T, B>(head, step);
}

template <typename T, int W, int B>
void backward_blocks(const Head<T>& head, const Gradients<T>& g, const T* delta) {
    const std::int64_t w = W ? W : head.width;
    const auto keys = turned_blocks<T, B>(head.k, head.columns, w);
    const auto values = turned_blocks<T, B>(head.v, head.columns, w);
    std::vector<T> turned_keys(keys.size(), T(0)), turned_values(keys.size(), T(0));
    const T scale = scale_of(head);
    Histogram<T> histogram;
    const auto step = [&](std::int64_t i0, std::int64_t c0, const T(*bias)[B], auto note) {
        const int rows = static_cast<int>(std::min<std::int64_t>(B, head.rows - i0));
        const auto columns = std::min<std::int64_t>(B, head.columns - c0);
        T weights[B][B], ds[B][B];
        for (int i = 0; i < rows; ++i) {
            const auto row = i0 + i;
            scores_of<T, W, B>(weights[i], head.q + row * w, scale, keys.data() + c0 * w, w);
            scores_of<T, W, B>(ds[i], g.grad + row * w, T(1), values.data() + c0 * w, w);
            const T lse = g.lse[row], own = delta[row];
            for (int j = 0; j < B; ++j) {
                weights[i][j] = exponential(weights[i][j] + bias[i][j] - lse);
                ds[i][j] = weights[i][j] * (ds[i][j] - own);
            }
            note(histogram, i, ds[i]);
            for (int j = 0; j < B; ++j) ds[i][j] *= scale;
            add_all<T, W>(g.dq + row * w, ds[i], columns, head.k, [&](std::int64_t j) { return c0 + j; }, w);
        }
        // The columns' gradients lie turned, so that a row adds to whole vectors of them.
        for (std::int64_t d = 0; d < w; ++d) {
            T *to_key = turned_keys.data() + c0 * w + d * B, *to_value = turned_values.data() + c0 * w + d * B;
            for (int i = 0; i < rows; ++i) {
                const T query = head.q[(i0 + i) * w + d], grad = g.grad[(i0 + i) * w + d];
                for (int j = 0; j < B; ++j) {
                    to_key[j] += ds[i][j] * query;
                    to_value[j] += weights[i][j] * grad;
                }
            }
        }
    };
    if (head.full)
        each_place<T, B>(head, step);
    else
        each_tile<T, B>(head, step);
    histogram.collect(g.dtable);
    for (std::int64_t j = 0; j < head.columns; ++j)
        for (std::int64_t d = 0; d < w; ++d) {
            g.dk[j * w + d] += turned_keys[(j / B * w + d) * B + j % B];
            g.dv[j * w + d] += turned_values[(j / B * w + d) * B + j % B];
        }
}

constexpr int kFullSide = 32;

// Calls f with the tile's side as a constant.
template <typename F>
void with_side(std::int64_t side, F f) {
    if (side == 8)
        f(std::integral_constant<int, 8>());
    else if (side == 16)
        f(std::integral_constant<int, 16>());
    else
        f(std::integral_constant<int, 32>());
}

template <typename T, int W>
void forward(const Head<T>& head, T* out, T* lse) {
    const std::size_t rows = static_cast<std::size_t>(head.rows);
    std::fill(out, out + head.rows * head.width, T(0));
    std::vector<T> top(rows, kNever<T>), sum(rows, T(0));
    Running<T, W> running{out, top.data(), sum.data(), head.width};
    if (head.full) {
        forward_blocks<T, W, kFullSide>(head, running);
    } else {
        forward_pairs(head, running);
        if (head.tile_ptr != nullptr)
            with_side(head.side, [&](auto side) { forward_blocks<T, W, side()>(head, running); });
    }
    for (std::int64_t i = 0; i < head.rows; ++i) {
        const bool any = sum[i] > 0;
        lse[i] = any ? top[i] + std::log(sum[i]) : T(0);
        const T factor = any ? T(1) / sum[i] : T(0);
        for (std::int64_t d = 0; d < head.width; ++d) out[i * head.width + d] *= factor;
    }
}

template <typename T, int W>
void backward(const Head<T>& head, const Gradients<T>& g) {
    std::vector<T> delta(static_cast<std::size_t>(head.rows));
    for (std::int64_t i = 0; i < head.rows; ++i)
        delta[i] = dot<T, W>(g.grad + i * head.width, g.out + i * head.width, head.width);
    if (head.full) {
        backward_blocks<T, W, kFullSide>(head, g, delta.data());
        return;
    }
    backward_pairs<T, W>(head, g, delta.data());
    if (head.tile_ptr != nullptr)
        with_side(head.side, [&](auto side) { backward_blocks<T, W, side()>(head, g, delta.data()); });
}

// The widths of the known models' heads have loops of their own: 8 (slim), 16 (GT), 24 (large).
template <typename F>
void with_width(std::int64_t width, F f) {
    if (width == 8)
        f(std::integral_constant<int, 8>());
    else if (width == 16)
        f(std::integral_constant<int, 16>());
    else if (width == 24)
        f(std::integral_constant<int, 24>());
    else
        f(std::integral_constant<int, 0>());
}

void forward_float(const Head<float>& head, float* out, float* lse) {
    with_width(head.width, [&](auto w) { forward<float, w()>(head, out, lse); });
}

void backward_float(const Head<float>& head, const Gradients<float>& g) {
    with_width(head.width, [&](auto w) { backward<float, w()>(head, g); });
}

}  // namespace

const AttentionKernels kernels = {forward_float, forward<double, 0>, backward_float, backward<double, 0>};

}  // namespace netfold::NETFOLD_ISA
