// Match-action tables. A key is its fields' big-endian bytes, one field after another, padded to whole 64-bit
// words, so that every kind of match is a comparison of words.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "wire.h"

namespace p4 {

// Results of control calls, as P4Runtime numbers them (google.rpc.Code), negated.
enum Status {
  ok = 0, invalid_argument = -3, not_found = -5, already_exists = -6, resource_exhausted = -8, failed_precondition = -9
};

struct ActionCall {
  int action = -1;
  std::vector<uint8_t> data;
};

// What an entry of a table with an action profile holds instead of an action: a member's or a group's number.
struct Indirect {
  int member = -1, group = -1;
};

// What apply() gives: `action` is a position in the table's list of actions.
struct TableResult {
  bool hit;
  int action;
};

// A word-wise hash map from keys to entry numbers: open addressing, rebuilt when it fills or shrinks.
class KeyMap {
 public:
  explicit KeyMap(int words) : words_(words) { rebuild(16); }

  int find(const uint64_t* key) const {
    for (size_t i = hash(key) & mask_;; i = (i + 1) & mask_) {
      if (values_[i] < 0) return -1;
      if (equal(&keys_[i * words_], key)) return values_[i];
    }
  }
  void insert(const uint64_t* key, int value) {
    if (2 * ++count_ > values_.size()) grow();
    place(key, value);
  }
  void erase(const uint64_t* key) {
    size_t i = hash(key) & mask_;
    while (values_[i] >= 0 && !equal(&keys_[i * words_], key)) i = (i + 1) & mask_;
    if (values_[i] < 0) return;
    values_[i] = -1;
    --count_;
    // Put back what may have been pushed past this place.
    for (size_t j = (i + 1) & mask_; values_[j] >= 0; j = (j + 1) & mask_) {
      const int value = values_[j];
      std::vector<uint64_t> moved(keys_.begin() + long(j * words_), keys_.begin() + long((j + 1) * words_));
      values_[j] = -1;
      place(moved.data(), value);
    }
  }
  bool empty() const { return count_ == 0; }

 private:
  uint64_t hash(const uint64_t* key) const {
    uint64_t h = 0x9E3779B97F4A7C15ull;
    for (int i = 0; i < words_; ++i) {
      const u128 product = static_cast<u128>(h ^ key[i]) * 0xD6E8FEB86659FD93ull;
      h = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }
    return h;
  }
  bool equal(const uint64_t* a, const uint64_t* b) const {
    for (int i = 0; i < words_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }
  void place(const uint64_t* key, int value) {
    size_t i = hash(key) & mask_;
    while (values_[i] >= 0) i = (i + 1) & mask_;
    std::copy(key, key + words_, &keys_[i * words_]);
    values_[i] = value;
  }
  void rebuild(size_t size) {
    keys_.assign(size * words_, 0);
    values_.assign(size, -1);
    mask_ = size - 1;
  }
  void grow() {
    std::vector<uint64_t> keys;
    std::vector<int> values;
    keys.swap(keys_);
    values.swap(values_);
    rebuild(values.size() * 2);
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] >= 0) place(&keys[i * words_], values[i]);
  }
  int words_;
  size_t mask_ = 0, count_ = 0;
  std::vector<uint64_t> keys_;
  std::vector<int> values_;
};

enum class Kind : uint8_t { exact, lpm, ternary, range, optional };

struct KeyField {
  Kind kind;
  int offset_bytes;
  int bytes;
  int bits;
};

struct Entry {
  std::vector<uint64_t> key, mask;  // key already masked; for a range field, key is the low and mask the high end
  int prefix = 0;
  int64_t priority = 0;
  ActionCall call;
  Indirect indirect;
  bool live = false;
  uint64_t packets = 0, bytes = 0;

  void count(uint64_t size) {
    ++packets;
    bytes += size;
  }
};

class Table {
 public:
  static constexpr int max_words = 64;

  Table(std::vector<KeyField> fields, size_t size) : fields_(std::move(fields)), size_(size) {
    int bytes = 0;
    for (const KeyField& f : fields_) {
      bytes = f.offset_bytes + f.bytes;
      if (f.kind == Kind::lpm) lpm_ = &f - fields_.data();
      if (f.kind == Kind::ternary || f.kind == Kind::range || f.kind == Kind::optional) ordered_ = true;
      if (f.kind == Kind::range) ranges_ = true;
    }
    words_ = (bytes + 7) / 8;
    if (!ordered_ && lpm_ < 0 && bytes == 1) by_byte_.assign(256, -1);
    if (!ordered_) exact_ = std::make_unique<KeyMap>(words_ ? words_ : 1);
  }

  int words() const { return words_; }
  const ActionCall& default_call() const { return default_; }
  bool uses(Indirect what) const {
    return std::any_of(entries_.begin(), entries_.end(), [what](const Entry& e) {
      return e.live && e.indirect.member == what.member && e.indirect.group == what.group;
    });
  }
  Entry& entry(int number) { return entries_[size_t(number)]; }

  // The entry that matches, or -1, where the key is one exact byte.
  int lookup_byte(const uint64_t* key) const { return by_byte_[*reinterpret_cast<const uint8_t*>(key)]; }

  // The same for any key.
  int lookup(const uint64_t* key) const {
    if (fields_.empty()) return -1;
    if (ordered_) {
      for (int number : order_)
        if (matches(entries_[size_t(number)], key)) return number;
      return -1;
    }
    if (lpm_ < 0) return exact_->find(key);
    uint64_t masked[max_words];
    for (const Prefix& p : prefixes_) {
      for (int i = 0; i < words_; ++i) masked[i] = key[i] & p.mask[size_t(i)];
      const int found = p.map.find(masked);
      if (found >= 0) return found;
    }
    return -1;
  }

  // `mask` is as long as `key`: ternary and optional masks, high ends of ranges, anything elsewhere.
  int insert(const uint8_t* key, const uint8_t* mask, int prefix, int64_t priority, ActionCall call,
             Indirect indirect) {
    if (live_ >= size_) return resource_exhausted;
    Entry e = make(key, mask, prefix);
    if (same(e) >= 0) return already_exists;
    e.priority = priority;
    e.call = std::move(call);
    e.indirect = indirect;
    e.live = true;
    int number;
    if (free_.empty()) {
      number = int(entries_.size());
      entries_.push_back(std::move(e));
    } else {
      number = free_.back();
      free_.pop_back();
      entries_[size_t(number)] = std::move(e);
    }
    ++live_;
    link(number);
    return number;
  }
  int find(const uint8_t* key, const uint8_t* mask, int prefix, int64_t priority) const {
    Entry e = make(key, mask, prefix);
    e.priority = priority;
    return same(e);
  }
  int modify(int number, ActionCall call, Indirect indirect) {
    if (!is_live(number)) return not_found;
    entries_[size_t(number)].call = std::move(call);
    entries_[size_t(number)].indirect = indirect;
    return ok;
  }
  int erase(int number) {
    if (!is_live(number)) return not_found;
    Entry& e = entries_[size_t(number)];
    if (ordered_) {
      order_.erase(std::find(order_.begin(), order_.end(), number));
    } else if (lpm_ < 0) {
      exact_->erase(e.key.data());
      if (!by_byte_.empty()) by_byte_[*reinterpret_cast<const uint8_t*>(e.key.data())] = -1;
    } else {
      auto p = std::find_if(prefixes_.begin(), prefixes_.end(), [&](const Prefix& x) { return x.length == e.prefix; });
      p->map.erase(e.key.data());
      if (p->map.empty()) prefixes_.erase(p);
    }
    e = Entry{};
    free_.push_back(number);
    --live_;
    return ok;
  }
  void set_default(ActionCall call) { default_ = std::move(call); }
  bool is_live(int number) const {
    return number >= 0 && size_t(number) < entries_.size() && entries_[size_t(number)].live;
  }

 private:
  struct Prefix {
    int length;
    std::vector<uint64_t> mask;
    KeyMap map;
  };

  // Masks as the fields' kinds want them; the key masked by them.
  Entry make(const uint8_t* key, const uint8_t* mask, int prefix) const {
    Entry e;
    e.prefix = prefix;
    e.key.assign(size_t(words_), 0);
    e.mask.assign(size_t(words_), 0);
    auto* k = reinterpret_cast<uint8_t*>(e.key.data());
    auto* m = reinterpret_cast<uint8_t*>(e.mask.data());
    for (const KeyField& f : fields_) {
      for (int i = 0; i < f.bytes; ++i) {
        const int at = f.offset_bytes + i;
        if (f.kind == Kind::range) {
          k[at] = key[at];
          m[at] = mask[at];
          continue;
        }
        if (f.kind == Kind::exact) m[at] = 0xFF;
        else if (f.kind != Kind::lpm) m[at] = mask[at];
        k[at] = key[at] & m[at];
      }
      if (f.kind != Kind::lpm) continue;
      const int skip = 8 * f.bytes - f.bits;  // the value is right-aligned in its bytes
      for (int b = skip; b < skip + prefix; ++b) m[f.offset_bytes + b / 8] |= uint8_t(0x80u >> (b % 8));
      for (int i = 0; i < f.bytes; ++i) k[f.offset_bytes + i] = key[f.offset_bytes + i] & m[f.offset_bytes + i];
    }
    return e;
  }
  int same(const Entry& e) const {
    if (ordered_) {
      for (int number : order_) {
        const Entry& o = entries_[size_t(number)];
        if (o.priority == e.priority && o.key == e.key && o.mask == e.mask) return number;
      }
      return -1;
    }
    if (lpm_ < 0) return exact_->find(e.key.data());
    for (const Prefix& p : prefixes_)
      if (p.length == e.prefix) return p.map.find(e.key.data());
    return -1;
  }
  bool matches(const Entry& e, const uint64_t* key) const {
    if (!ranges_) {
      for (int i = 0; i < words_; ++i)
        if ((key[i] & e.mask[size_t(i)]) != e.key[size_t(i)]) return false;
      return true;
    }
    const auto* given = reinterpret_cast<const uint8_t*>(key);
    const auto* k = reinterpret_cast<const uint8_t*>(e.key.data());
    const auto* m = reinterpret_cast<const uint8_t*>(e.mask.data());
    for (const KeyField& f : fields_) {
      const int at = f.offset_bytes;
      if (f.kind == Kind::range) {
        if (std::memcmp(given + at, k + at, size_t(f.bytes)) < 0) return false;
        if (std::memcmp(given + at, m + at, size_t(f.bytes)) > 0) return false;
        continue;
      }
      for (int i = at; i < at + f.bytes; ++i)
        if ((given[i] & m[i]) != k[i]) return false;
    }
    return true;
  }
  void link(int number) {
    const Entry& e = entries_[size_t(number)];
    if (ordered_) {
      // Among entries that match, the highest priority wins; of equals, the first inserted. An lpm field of a
      // ternary table counts like its mask: the longer prefix first.
      auto before = [&](int other) {
        const Entry& o = entries_[size_t(other)];
        return o.priority != e.priority ? o.priority > e.priority : o.prefix >= e.prefix;
      };
      order_.insert(std::find_if_not(order_.begin(), order_.end(), before), number);
    } else if (lpm_ < 0) {
      exact_->insert(e.key.data(), number);
      if (!by_byte_.empty()) by_byte_[*reinterpret_cast<const uint8_t*>(e.key.data())] = number;
    } else {
      auto p = std::find_if(prefixes_.begin(), prefixes_.end(), [&](const Prefix& x) { return x.length <= e.prefix; });
      if (p == prefixes_.end() || p->length != e.prefix) p = prefixes_.insert(p, Prefix{e.prefix, e.mask, KeyMap(words_)});
      p->map.insert(e.key.data(), number);
    }
  }

  std::vector<KeyField> fields_;
  size_t size_, live_ = 0;
  int words_ = 0;
  long lpm_ = -1;
  bool ordered_ = false, ranges_ = false;
  std::vector<Entry> entries_;
  std::vector<int> free_, order_;
  std::unique_ptr<KeyMap> exact_;
  std::vector<int> by_byte_;  // the entry of each key, where a key is one byte
  std::vector<Prefix> prefixes_;
  ActionCall default_;
};

// Action data: parameter after parameter, each in whole bytes, right-aligned.
template <class T, size_t AtBytes>
inline T data_param(const ActionCall& call) {
  constexpr size_t bytes = (T::width + 7) / 8;
  return load<T, AtBytes * 8 + bytes * 8 - T::width>(call.data.data());
}
template <class T, size_t AtBytes>
inline void key_field(uint64_t* key, T value) {
  constexpr size_t bytes = (T::width + 7) / 8;
  store<T, AtBytes * 8 + bytes * 8 - T::width>(reinterpret_cast<uint8_t*>(key), value);
}

// The values that a parser's value_set accepts; the control plane fills it.
class ValueSet {
 public:
  ValueSet(int bytes, size_t size) : bytes_(bytes), size_(size) {}
  bool contains(const uint64_t* key) const {
    const auto* given = reinterpret_cast<const uint8_t*>(key);
    for (size_t i = 0; i < values_.size(); ++i) {
      bool same = true;
      for (int b = 0; same && b < bytes_; ++b) same = (given[b] & masks_[i][size_t(b)]) == values_[i][size_t(b)];
      if (same) return true;
    }
    return false;
  }
  int insert(const uint8_t* value, const uint8_t* mask) {
    if (values_.size() >= size_) return resource_exhausted;
    std::vector<uint8_t> v(value, value + bytes_), m(mask, mask + bytes_);
    for (int b = 0; b < bytes_; ++b) v[size_t(b)] &= m[size_t(b)];
    values_.push_back(std::move(v));
    masks_.push_back(std::move(m));
    return ok;
  }
  void clear() {
    values_.clear();
    masks_.clear();
  }

 private:
  int bytes_;
  size_t size_;
  std::vector<std::vector<uint8_t>> values_, masks_;
};

}  // namespace p4
