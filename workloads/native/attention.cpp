// Attention over pairs, tiles or everything, head by head; threads share the heads.
#include "arrays.hpp"
#include "attention_isa.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

namespace netfold {

namespace {

template <typename T>
using Cube = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Square = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using OutCube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <typename T>
using OutSquare = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

const AttentionKernels& chosen() {
#ifdef NETFOLD_X86
    static const AttentionKernels& best = __builtin_cpu_supports("x86-64-v4") ? attention_avx512::kernels
                                          : __builtin_cpu_supports("x86-64-v3")
                                              ? attention_avx2::kernels
                                              : attention_baseline::kernels;
    return best;
#else
    return attention_baseline::kernels;
#endif
}

// The layout as Python hands it over; checked once, so that the kernels need not.
struct Layout {
    In<std::int64_t> indptr;
    In<std::int32_t> indices;
    In<std::uint8_t> classes;
    In<std::int64_t> tile_ptr;
    In<std::int32_t> tile_columns;
    Cube<std::uint8_t> tile_classes;
    bool full;

    void check(std::size_t rows, std::size_t columns) const {
        if (indptr.size() != rows + 1 || indices.size() != classes.size())
            throw std::invalid_argument("layout: indptr, indices and classes do not belong together");
        if (indptr(0) != 0 || indptr(rows) != std::int64_t(indices.size()))
            throw std::invalid_argument("layout: indptr does not span the indices");
        for (std::size_t i = 0; i < rows; ++i)
            if (indptr(i) > indptr(i + 1)) throw std::invalid_argument("layout: indptr falls");
        for (std::size_t at = 0; at < indices.size(); ++at)
            if (std::size_t(indices(at)) >= columns) throw std::invalid_argument("layout: a key is out of range");
        for (std::size_t at = 0; at < classes.size(); ++at)
            if (classes(at) >= kClasses) throw std::invalid_argument("layout: a class is out of range");
        const auto side = tile_classes.shape(1);
        if (tile_columns.size() == 0) return;
        if (side != tile_classes.shape(2) || (side != 8 && side != 16 && side != 32))
            throw std::invalid_argument("layout: tiles must be square, of side 8, 16 or 32");
        if (tile_ptr.size() != (rows + side - 1) / side + 1 || tile_classes.shape(0) != tile_columns.size() ||
            tile_ptr(0) != 0 || tile_ptr(tile_ptr.size() - 1) != std::int64_t(tile_columns.size()))
            throw std::invalid_argument("layout: the tiles' parts do not belong together");
        for (std::size_t b = 0; b + 1 < tile_ptr.size(); ++b)
            if (tile_ptr(b) > tile_ptr(b + 1)) throw std::invalid_argument("layout: tile_ptr falls");
        for (std::size_t t = 0; t < tile_columns.size(); ++t)
            if (std::size_t(tile_columns(t)) * side >= columns)
                throw std::invalid_argument("layout: a tile is out of range");
        const auto* place = tile_classes.data();
        for (std::size_t at = 0; at < tile_classes.size(); ++at)
            if (place[at] >= kClasses) throw std::invalid_argument("layout: a class is out of range");
        // A place beyond the last key must stay empty.
        for (std::size_t t = 0; t < tile_columns.size(); ++t) {
            const std::size_t c0 = std::size_t(tile_columns(t)) * side;
            if (c0 + side <= columns) continue;
            for (std::size_t at = 0; at < side * side; ++at)
                if (c0 + at / side >= columns && place[t * side * side + at])
                    throw std::invalid_argument("layout: a tile attends beyond the last key");
        }
    }

    template <typename T>
    Head<T> head(std::size_t h, const Cube<T>& q, const Cube<T>& k, const Cube<T>& v,
                 const Square<T>& table) const {
        const auto rows = q.shape(1), columns = k.shape(1), width = q.shape(2);
        return {q.data() + h * rows * width,
                k.data() + h * columns * width,
                v.data() + h * columns * width,
                table.data() + h * kClasses,
                std::int64_t(rows),
                std::int64_t(columns),
                std::int64_t(width),
                indptr.data(),
                indices.data(),
                classes.data(),
                tile_columns.size() ? tile_ptr.data() : nullptr,
                tile_columns.data(),
                tile_classes.data(),
                std::int64_t(tile_classes.shape(1)),
                full};
    }
};

template <typename T>
void check_shapes(const Cube<T>& q, const Cube<T>& k, const Cube<T>& v, const Square<T>& table) {
    const bool fits = k.shape(0) == q.shape(0) && v.shape(0) == q.shape(0) && k.shape(2) == q.shape(2) &&
                      v.shape(2) == q.shape(2) && v.shape(1) == k.shape(1) && table.shape(0) == q.shape(0) &&
                      table.shape(1) == std::size_t(kClasses);
    if (!fits) throw std::invalid_argument("attention: the shapes of q, k, v and table do not fit");
}

// Calls work(h) for every head, on `threads` threads.
template <typename Work>
void over_heads(std::size_t heads, std::size_t threads, Work work) {
    nb::gil_scoped_release released;
    const auto count = std::max<std::size_t>(1, std::min(heads, threads));
    const auto part = [&](std::size_t first) {
        for (auto h = first; h < heads; h += count) work(h);
    };
    std::vector<std::thread> others;
    for (std::size_t t = 1; t < count; ++t) others.emplace_back(part, t);
    part(0);
    for (auto& other : others) other.join();
}

void forward_of(const Head<float>& head, float* out, float* lse) { chosen().forward_float(head, out, lse); }
void forward_of(const Head<double>& head, double* out, double* lse) { chosen().forward_double(head, out, lse); }
void backward_of(const Head<float>& head, const Gradients<float>& g) { chosen().backward_float(head, g); }
void backward_of(const Head<double>& head, const Gradients<double>& g) { chosen().backward_double(head, g); }

template <typename T>
void forward(const Layout& layout, Cube<T> q, Cube<T> k, Cube<T> v, Square<T> table, OutCube<T> out,
             OutSquare<T> lse, std::size_t threads) {
    check_shapes(q, k, v, table);
    const auto rows = q.shape(1), width = q.shape(2);
    if (out.size() != q.size() || lse.size() != q.shape(0) * rows || layout.indptr.size() != rows + 1)
        throw std::invalid_argument("attention: the shapes of layout, out and lse do not fit");
    over_heads(q.shape(0), threads, [&](std::size_t h) {
        forward_of(layout.head(h, q, k, v, table), out.data() + h * rows * width, lse.data() + h * rows);
    });
}

template <typename T>
void backward(const Layout& layout, Cube<T> q, Cube<T> k, Cube<T> v, Square<T> table, Cube<T> out, Square<T> lse,
              Cube<T> grad, OutCube<T> dq, OutCube<T> dk, OutCube<T> dv, OutSquare<T> dtable,
              std::size_t threads) {
    check_shapes(q, k, v, table);
    const auto rows = q.shape(1), columns = k.shape(1), width = q.shape(2);
    if (out.size() != q.size() || grad.size() != q.size() || dq.size() != q.size() || dk.size() != k.size() ||
        dv.size() != v.size() || lse.size() != q.shape(0) * rows || dtable.size() != table.size() ||
        layout.indptr.size() != rows + 1)
        throw std::invalid_argument("attention: the shapes of the gradients do not fit");
    over_heads(q.shape(0), threads, [&](std::size_t h) {
        const auto row = h * rows * width, column = h * columns * width;
        backward_of(layout.head(h, q, k, v, table),
                    {out.data() + row, lse.data() + h * rows, grad.data() + row, dq.data() + row,
                     dk.data() + column, dv.data() + column, dtable.data() + h * kClasses});
    });
}

}  // namespace

void bind_attention(nb::module_& m) {
    nb::class_<Layout>(m, "AttentionLayout")
        .def(
            "__init__",
            [](Layout* self, In<std::int64_t> indptr, In<std::int32_t> indices, In<std::uint8_t> classes,
               In<std::int64_t> tile_ptr, In<std::int32_t> tile_columns, Cube<std::uint8_t> tile_classes,
               std::size_t columns, bool full) {
                const Layout layout{indptr, indices, classes, tile_ptr, tile_columns, tile_classes, full};
                if (indptr.size() == 0) throw std::invalid_argument("layout: indptr is empty");
                layout.check(indptr.size() - 1, columns);
                new (self) Layout(layout);
            });
    m.def("attention_forward", &forward<float>);
    m.def("attention_forward", &forward<double>);
    m.def("attention_backward", &backward<float>);
    m.def("attention_backward", &backward<double>);
}

}  // namespace netfold
