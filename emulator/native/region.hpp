// Shared memory without a name: a memfd, passed on by fork or over a socket, gone with its last user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace netfold::host {

// Sets OSError from errno and throws; the caller holds the GIL.
[[noreturn]] void raise_os(const std::string& what);

class Region {
   public:
    // Zeroed memory. With `huge` on huge pages if the machine has any free, on plain ones otherwise.
    static std::shared_ptr<Region> create(std::size_t bytes, const std::string& name, bool huge);
    // A descriptor of such memory, which stays the caller's own.
    static std::shared_ptr<Region> attach(int fd);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    std::uint8_t* data() const { return data_; }
    std::size_t size() const { return size_; }
    int fd() const { return fd_; }

   private:
    Region(int fd, std::uint8_t* data, std::size_t size) : fd_(fd), data_(data), size_(size) {}
    int fd_;
    std::uint8_t* data_;
    std::size_t size_;
};

}  // namespace netfold::host
