// Numbers out of text, block by block: what the graph file readers need, without a Python object per value.
#include "arrays.hpp"

#include <nanobind/stl/string.h>

#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>

namespace netfold {
namespace {

class Lines {
public:
    Lines(const nb::bytes& block, std::int64_t first_line)
        : at_(static_cast<const char*>(block.data())), end_(at_ + block.size()), number_(first_line - 1) {}

    bool next(std::string_view& line) {
        if (at_ == end_) return false;
        const char* start = at_;
        while (at_ != end_ && *at_ != '\n') ++at_;
        line = {start, static_cast<std::size_t>(at_ - start)};
        if (at_ != end_) ++at_;
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        ++number_;
        return true;
    }

    std::int64_t number() const { return number_; }

    [[noreturn]] void fail(std::string_view found, const std::string& expected) const {
        std::string shown;
        for (char c : found.substr(0, 40)) shown += (c >= 32 && c < 127) ? c : '?';
        throw std::invalid_argument("line " + std::to_string(number_) + ": found '" + shown + "', expected " + expected);
    }

private:
    const char* at_;
    const char* end_;
    std::int64_t number_;
};

bool blank(char c) { return c == ' ' || c == '\t'; }

// The next field of a line: fields are split by blanks, or by commas with blanks around them.
bool next_field(std::string_view& rest, bool comma, bool first, std::string_view& field) {
    while (!rest.empty() && blank(rest.front())) rest.remove_prefix(1);
    if (comma && !first) {
        if (rest.empty()) return false;
        if (rest.front() == ',') rest.remove_prefix(1);
        while (!rest.empty() && blank(rest.front())) rest.remove_prefix(1);
        // A comma at the end opens a field that is empty.
        std::size_t size = 0;
        while (size < rest.size() && rest[size] != ',' && !blank(rest[size])) ++size;
        field = rest.substr(0, size);
        rest.remove_prefix(size);
        return true;
    }
    if (rest.empty()) return false;
    std::size_t size = 0;
    while (size < rest.size() && !blank(rest[size]) && !(comma && rest[size] == ',')) ++size;
    field = rest.substr(0, size);
    rest.remove_prefix(size);
    return true;
}

std::int64_t integer(const Lines& lines, std::string_view field) {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc{} || stop != field.data() + field.size()) lines.fail(field, "a whole number");
    return value;
}

float real(const Lines& lines, std::string_view field) {
    double value = 0;
    const auto [stop, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    // A subnormal is "out of range" to from_chars; as a float it is zero.
    const bool tiny = error == std::errc::result_out_of_range && field.find("e-") != std::string_view::npos;
    if ((error != std::errc{} && !tiny) || stop != field.data() + field.size()) lines.fail(field, "a number");
    const float narrow = tiny ? 0.0f : static_cast<float>(value);
    if (!std::isfinite(narrow)) lines.fail(field, "a finite number");
    return narrow;
}

bool skipped(std::string_view line, const std::string& comment) {
    while (!line.empty() && blank(line.front())) line.remove_prefix(1);
    return line.empty() || comment.find(line.front()) != std::string::npos;
}

// Rows of `ints` whole numbers followed by `reals` numbers: (int64[rows, ints], float32[rows, reals], lines read).
nb::tuple parse_rows(const nb::bytes& block, std::int64_t first_line, std::size_t ints, std::size_t reals, bool comma,
                     const std::string& comment) {
    std::vector<std::int64_t> whole;
    std::vector<float> numbers;
    Lines lines(block, first_line);
    std::size_t rows = 0;
    {
        nb::gil_scoped_release release;
        std::string_view line, field;
        while (lines.next(line)) {
            if (skipped(line, comment)) continue;
            const std::string_view all = line;
            std::size_t count = 0;
            while (next_field(line, comma, count == 0, field)) {
                if (count < ints)
                    whole.push_back(integer(lines, field));
                else if (count < ints + reals)
                    numbers.push_back(real(lines, field));
                ++count;
            }
            if (count != ints + reals)
                lines.fail(all, std::to_string(ints + reals) + " fields (there are " + std::to_string(count) + ")");
            ++rows;
        }
    }
    return nb::make_tuple(to_numpy(std::move(whole), {rows, ints}), to_numpy(std::move(numbers), {rows, reals}),
                          lines.number() - first_line + 1);
}

// Lines of any number of whole numbers, empty lines included: (int64 values, int64 values per line, lines read).
nb::tuple parse_ragged(const nb::bytes& block, std::int64_t first_line, const std::string& comment) {
    std::vector<std::int64_t> values, counts;
    Lines lines(block, first_line);
    {
        nb::gil_scoped_release release;
        std::string_view line, field;
        while (lines.next(line)) {
            if (!line.empty() && comment.find(line.front()) != std::string::npos) continue;
            const std::size_t before = values.size();
            while (next_field(line, false, true, field)) values.push_back(integer(lines, field));
            counts.push_back(static_cast<std::int64_t>(values.size() - before));
        }
    }
    return nb::make_tuple(to_numpy(std::move(values)), to_numpy(std::move(counts)), lines.number() - first_line + 1);
}

}  // namespace

void bind_text(nb::module_& m) {
    m.def("parse_rows", &parse_rows, nb::arg("block"), nb::arg("first_line"), nb::arg("ints"), nb::arg("reals"),
          nb::arg("comma"), nb::arg("comment"));
    m.def("parse_ragged", &parse_ragged, nb::arg("block"), nb::arg("first_line"), nb::arg("comment"));
}

}  // namespace netfold
