// Fused attention over pairs, tiles or everything: scores, softmax and weighted sum of a query without any of them
// being stored, as FlashAttention does (Dao et al., NeurIPS 2022); the backward pass computes the scores again.
// Compiled once per instruction set with -ffast-math, so "no pair" is a large finite number and not infinity.
#include "attention_isa.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace netfold::NETFOLD_ISA {
namespace {

template <typename T>
constexpr T kNever = T(-1e30);

// N values that are computed at once, whatever registers the processor has (GNU vector extension): a loop over a
// fixed few values would be unrolled before it could be vectorised.
template <typename T, int N>
struct Lanes {
    typedef T type __attribute__((vector_size(sizeof(T) * N)));
    typedef T loose __attribute__((vector_size(sizeof(T) * N), aligned(alignof(T)), may_alias));
    typedef std::int32_t whole __attribute__((vector_size(sizeof(std::int32_t) * N)));
};
template <typename T, int N>
using Vec = typename Lanes<T, N>::type;

template <typename T, int N>
inline Vec<T, N> load(const T* from) {
    return *reinterpret_cast<const typename Lanes<T, N>::loose*>(from);
}

template <typename T, int N>
inline void store(T* to, Vec<T, N> values) {
    *reinterpret_cast<typename Lanes<T, N>::loose*>(to) = values;
}

template <typename V>
inline V larger(V a, V b) {
    return a > b ? a : b;
}

// e^x of x <= 0 or a little above; 0 below -87. float: Cephes' expf, within 2 units in the last place.
template <int N>
inline Vec<float, N> exponential(Vec<float, N> x) {
    using V = Vec<float, N>;
    using I = typename Lanes<float, N>::whole;
    const V at = larger<V>(x, V{} - 87.0f);
    const I whole = __builtin_convertvector(at * 1.44269504f - 0.5f, I);
    const V n = __builtin_convertvector(whole, V);
    V r = at - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const I power = (whole + 127) << 23;
    return x < -87.0f ? V{} : p * (V)power;  // the same bits as a float
}

template <int N>
inline Vec<double, N> exponential(Vec<double, N> x) {
    for (int l = 0; l < N; ++l) x[l] = x[l] < -700 ? 0 : std::exp(x[l]);
    return x;
}

template <typename T>
inline T exponential_of(T x) {
    return exponential<8>(Vec<T, 8>{} + x)[0];
}

template <typename T>
inline T sum_of(Vec<T, 8> v) {
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

// Rows of W values are W / 8 vectors; W = 0 stands for a width known at run time only.
template <typename T, int W>
inline T dot(const T* a, const T* b, std::int64_t width) {
    if constexpr (W > 0) {
        Vec<T, 8> sum{};
        for (int d = 0; d < W; d += 8) sum += load<T, 8>(a + d) * load<T, 8>(b + d);
        return sum_of<T>(sum);
    } else {
        T sum = 0;
        for (std::int64_t d = 0; d < width; ++d) sum += a[d] * b[d];
        return sum;
    }
}

// Whole vectors: loops over a multiple of these need no remainder.
constexpr std::int64_t kLanes = 8;

inline std::int64_t padded(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

template <typename T, int W>
inline void add(T* to, T factor, const T* from, std::int64_t width) {
    if constexpr (W > 0) {
        for (int d = 0; d < W; d += 8) store<T, 8>(to + d, load<T, 8>(to + d) + factor * load<T, 8>(from + d));
    } else {
        for (std::int64_t d = 0; d < width; ++d) to[d] += factor * from[d];
    }
}

// to += sum of weights[j] * rows[index(j)]; two sums side by side, so that one need not wait for the other.
template <typename T, int W, typename Index>
inline __attribute__((always_inline)) void add_all(T* to, const T* weights, std::int64_t n, const T* rows,
                                                   Index index, std::int64_t width) {
    if constexpr (W > 0) {
        constexpr int parts = W / 8;
        Vec<T, 8> even[parts] = {}, odd[parts] = {};
        std::int64_t j = 0;
        for (; j + 2 <= n; j += 2)
            for (int p = 0; p < parts; ++p) {
                even[p] += weights[j] * load<T, 8>(rows + index(j) * W + 8 * p);
                odd[p] += weights[j + 1] * load<T, 8>(rows + index(j + 1) * W + 8 * p);
            }
        if (j < n)
            for (int p = 0; p < parts; ++p) even[p] += weights[j] * load<T, 8>(rows + index(j) * W + 8 * p);
        for (int p = 0; p < parts; ++p)
            store<T, 8>(to + 8 * p, load<T, 8>(to + 8 * p) + (even[p] + odd[p]));
    } else {
        for (std::int64_t j = 0; j < n; ++j) add<T, W>(to, weights[j], rows + index(j) * width, width);
    }
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
        Vec<T, kLanes> lane = load<T, kLanes>(scores);
        for (std::int64_t j = kLanes; j < all; j += kLanes)
            lane = larger<Vec<T, kLanes>>(lane, load<T, kLanes>(scores + j));
        T highest = lane[0];
        for (int l = 1; l < kLanes; ++l) highest = std::max(highest, lane[l]);
        if (highest <= kNever<T> / 2) return;
        highest = std::max(highest, top[i]);
        lane = Vec<T, kLanes>{};
        for (std::int64_t j = 0; j < all; j += kLanes) {
            const auto weight = exponential<kLanes>(load<T, kLanes>(scores + j) - highest);
            store<T, kLanes>(scores + j, weight);
            lane += weight;
        }
        const T total = sum_of<T>(lane), fade = exponential_of<T>(top[i] - highest);
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
        for (std::int64_t j = 0; j < all; j += kLanes) {
            const auto weight = exponential<kLanes>(load<T, kLanes>(&weights[j]) - lse);
            store<T, kLanes>(&weights[j], weight);
            store<T, kLanes>(&ds[j], weight * (load<T, kLanes>(&ds[j]) - own));
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

// The tiles of a row block, one after the other: next() gives a tile's first key and its bias, key by key;
// note() takes what its scores' gradients add to the bias's.
template <typename T, int B>
class Tiles {
public:
    explicit Tiles(const Head<T>& head) : head_(head) {
        std::copy(head.table, head.table + kClasses, lookup_);
        lookup_[0] = kNever<T>;
    }

    void begin(std::int64_t block) {
        at_ = head_.tile_ptr[block];
        end_ = head_.tile_ptr[block + 1];
    }

    bool next(std::int64_t& c0, T (&bias)[B][B]) {
        if (at_ == end_) return false;
        c0 = std::int64_t(head_.tile_columns[at_]) * B;
        classes_ = head_.tile_classes + at_++ * B * B;
        T* to = &bias[0][0];
#ifdef __AVX512F__
        if constexpr (std::is_same_v<T, float>) {
            const auto low = _mm512_loadu_ps(lookup_), high = _mm512_loadu_ps(lookup_ + 16);
            for (int x = 0; x < B * B; x += 16) {
                const auto bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(classes_ + x));
                _mm512_storeu_ps(to + x, _mm512_permutex2var_ps(low, _mm512_cvtepu8_epi32(bytes), high));
            }
            return true;
        }
#endif
        for (int x = 0; x < B * B; ++x) to[x] = lookup_[classes_[x]];
        return true;
    }

    void note(Histogram<T>& histogram, const T (&ds)[B][B], std::int64_t, int) const {
        for (int j = 0; j < B; ++j)
            for (int i = 0; i < B; ++i) histogram.add(i, classes_[j * B + i], ds[j][i]);
    }

private:
    const Head<T>& head_;
    T lookup_[32] = {};
    std::int64_t at_ = 0, end_ = 0;
    const std::uint8_t* classes_ = nullptr;
};

// The same over all keys, with the listed pairs' classes where there are any.
template <typename T, int B>
class Everything {
public:
    explicit Everything(const Head<T>& head) : head_(head) {}

    void begin(std::int64_t block) {
        i0_ = block * B;
        rows_ = static_cast<int>(std::min<std::int64_t>(B, head_.rows - i0_));
        c0_ = 0;
        std::copy(head_.indptr + i0_, head_.indptr + i0_ + rows_, after_);
    }

    bool next(std::int64_t& c0, T (&bias)[B][B]) {
        if (c0_ >= head_.columns) return false;
        c0 = c0_;
        c0_ += B;
        std::fill(&bias[0][0], &bias[0][0] + B * B, head_.table[kOutside]);
        for (int i = 0; i < rows_; ++i) {
            before_[i] = after_[i];
            for (auto& at = after_[i]; at < head_.indptr[i0_ + i + 1] && head_.indices[at] < c0_; ++at)
                bias[head_.indices[at] - c0][i] = head_.table[head_.classes[at]];
        }
        return true;
    }

    void note(Histogram<T>& histogram, const T (&ds)[B][B], std::int64_t c0, int columns) const {
        T total = 0;
        for (int j = 0; j < columns; ++j)
            for (int i = 0; i < B; ++i) total += ds[j][i];
        for (int i = 0; i < rows_; ++i)
            for (auto at = before_[i]; at < after_[i]; ++at) {
                const T one = ds[head_.indices[at] - c0][i];
                histogram.add(at, head_.classes[at], one);
                total -= one;
            }
        histogram.add(0, kOutside, total);
    }

private:
    const Head<T>& head_;
    std::int64_t i0_ = 0, c0_ = 0;
    int rows_ = 0;
    std::int64_t before_[B] = {}, after_[B] = {};
};

// [B, w] rows from i0 on, turned to [w, B] and scaled; zeros after the last row.
template <typename T, int B>
void turn(T* to, const T* rows, std::int64_t i0, int count, std::int64_t w, T scale) {
    std::fill(to, to + w * B, T(0));
    for (int i = 0; i < count; ++i)
        for (std::int64_t d = 0; d < w; ++d) to[d * B + i] = scale * rows[(i0 + i) * w + d];
}

// Queries lie beside each other in a vector, so that highest scores, sums and results of B of them are computed
// at once, without sums across a vector.
template <typename T, int W, int B, typename Source>
void forward_blocks(const Head<T>& head, Running<T, W>& running) {
    const std::int64_t w = W ? W : head.width;
    const T scale = scale_of(head);
    std::vector<T> query(static_cast<std::size_t>(w * B)), result(static_cast<std::size_t>(w * B));
    Source source(head);
    T bias[B][B];
    using V = Vec<T, B>;
    V results[W > 0 && W <= 16 ? W : 1] = {};
    for (std::int64_t block = 0; block * B < head.rows; ++block) {
        const auto i0 = block * B;
        const int rows = static_cast<int>(std::min<std::int64_t>(B, head.rows - i0));
        V top, sum;
        for (int i = 0; i < B; ++i) {
            top[i] = i < rows ? running.top[i0 + i] : kNever<T>;
            sum[i] = i < rows ? running.sum[i0 + i] : T(0);
        }
        turn<T, B>(query.data(), head.q, i0, rows, w, scale);
        turn<T, B>(result.data(), running.out, i0, rows, w, T(1));
        source.begin(block);
        for (std::int64_t c0; source.next(c0, bias);) {
            const int columns = static_cast<int>(std::min<std::int64_t>(B, head.columns - c0));
            V highest = top;
            for (int j = 0; j < columns; ++j) {
                const T* key = head.k + (c0 + j) * w;
                V row = load<T, B>(bias[j]);
                for (std::int64_t d = 0; d < w; ++d) row += key[d] * load<T, B>(&query[d * B]);
                store<T, B>(bias[j], row);
                highest = larger<V>(highest, row);
            }
            const V fade = exponential<B>(top - highest);
            top = highest;
            sum *= fade;
            for (std::int64_t d = 0; d < w; ++d) store<T, B>(&result[d * B], fade * load<T, B>(&result[d * B]));
            for (int j = 0; j < columns; ++j) {
                const T* value = head.v + (c0 + j) * w;
                const V score = load<T, B>(bias[j]);
                const V weight = score <= kNever<T> / 2 ? V{} : exponential<B>(score - highest);
                sum += weight;
                if constexpr (W > 0 && W <= 16) {
                    for (int d = 0; d < W; ++d) results[d] += value[d] * weight;
                } else {
                    for (std::int64_t d = 0; d < w; ++d)
                        store<T, B>(&result[d * B], load<T, B>(&result[d * B]) + value[d] * weight);
                }
            }
            if constexpr (W > 0 && W <= 16)
                for (int d = 0; d < W; ++d) {
                    store<T, B>(&result[d * B], load<T, B>(&result[d * B]) + results[d]);
                    results[d] = V{};
                }
        }
        for (int i = 0; i < rows; ++i) {
            running.top[i0 + i] = top[i];
            running.sum[i0 + i] = sum[i];
            for (std::int64_t d = 0; d < w; ++d) running.out[(i0 + i) * w + d] = result[d * B + i];
        }
    }
}

template <typename T, int W, int B, typename Source>
void backward_blocks(const Head<T>& head, const Gradients<T>& g, const T* deltas) {
    const std::int64_t w = W ? W : head.width;
    const T scale = scale_of(head);
    const auto turned = static_cast<std::size_t>(w * B);
    std::vector<T> query(turned), grad(turned), dq(turned);
    Histogram<T> histogram;
    Source source(head);
    T bias[B][B], weight[B][B], ds[B][B];
    using V = Vec<T, B>;
    for (std::int64_t block = 0; block * B < head.rows; ++block) {
        const auto i0 = block * B;
        const int rows = static_cast<int>(std::min<std::int64_t>(B, head.rows - i0));
        V lse, delta;
        for (int i = 0; i < B; ++i) {
            lse[i] = i < rows ? g.lse[i0 + i] : T(0);
            delta[i] = i < rows ? deltas[i0 + i] : T(0);
        }
        turn<T, B>(query.data(), head.q, i0, rows, w, scale);
        turn<T, B>(grad.data(), g.grad, i0, rows, w, T(1));
        std::fill(dq.begin(), dq.end(), T(0));
        source.begin(block);
        for (std::int64_t c0; source.next(c0, bias);) {
            const int columns = static_cast<int>(std::min<std::int64_t>(B, head.columns - c0));
            for (int j = columns; j < B; ++j)
                for (int i = 0; i < B; ++i) ds[j][i] = 0;
            for (int j = 0; j < columns; ++j) {
                const T *key = head.k + (c0 + j) * w, *value = head.v + (c0 + j) * w;
                V score = load<T, B>(bias[j]), back{};
                for (std::int64_t d = 0; d < w; ++d) {
                    score += key[d] * load<T, B>(&query[d * B]);
                    back += value[d] * load<T, B>(&grad[d * B]);
                }
                const V chosen = score <= kNever<T> / 2 ? V{} : exponential<B>(score - lse);
                const V change = chosen * (back - delta);
                store<T, B>(weight[j], chosen);
                store<T, B>(ds[j], change);
                for (std::int64_t d = 0; d < w; ++d)
                    store<T, B>(&dq[d * B], load<T, B>(&dq[d * B]) + key[d] * change);
            }
            source.note(histogram, ds, c0, columns);
            const auto at = [&](std::int64_t i) { return i0 + i; };
            for (int j = 0; j < columns; ++j) {
                store<T, B>(ds[j], scale * load<T, B>(ds[j]));
                add_all<T, W>(g.dk + (c0 + j) * w, ds[j], rows, head.q, at, w);
                add_all<T, W>(g.dv + (c0 + j) * w, weight[j], rows, g.grad, at, w);
            }
        }
        for (int i = 0; i < rows; ++i)
            for (std::int64_t d = 0; d < w; ++d) g.dq[(i0 + i) * w + d] += scale * dq[d * B + i];
    }
    histogram.collect(g.dtable);
}

constexpr int kFullSide = 16;

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
        forward_blocks<T, W, kFullSide, Everything<T, kFullSide>>(head, running);
    } else {
        forward_pairs(head, running);
        if (head.tile_ptr != nullptr)
            with_side(head.side, [&](auto side) { forward_blocks<T, W, side(), Tiles<T, side()>>(head, running); });
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
        backward_blocks<T, W, kFullSide, Everything<T, kFullSide>>(head, g, delta.data());
        return;
    }
    backward_pairs<T, W>(head, g, delta.data());
    if (head.tile_ptr != nullptr)
        with_side(head.side, [&](auto side) { backward_blocks<T, W, side(), Tiles<T, side()>>(head, g, delta.data()); });
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
