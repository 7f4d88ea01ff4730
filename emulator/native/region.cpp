#include "region.hpp"

#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace netfold::host {

namespace {
constexpr std::size_t huge_page = std::size_t{2} << 20;

void* map(int fd, std::size_t size) { return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); }
}  // namespace

void raise_os(const std::string& what) {
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, what.c_str());
    throw nanobind::python_error();
}

std::shared_ptr<Region> Region::create(std::size_t bytes, const std::string& name, bool huge) {
    for (const bool large : {true, false}) {
        if (large && !huge) continue;
        const std::size_t unit = large ? huge_page : 4096;
        const std::size_t size = (bytes + unit - 1) / unit * unit;
        const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | (large ? MFD_HUGETLB : 0u));
        if (fd < 0) {
            if (large) continue;
            raise_os(name);
        }
        if (ftruncate(fd, off_t(size)) == 0) {
            void* data = map(fd, size);
            if (data != MAP_FAILED) {
                return std::shared_ptr<Region>(new Region(fd, static_cast<std::uint8_t*>(data), size));
            }
        }
        const int error = errno;
        close(fd);
        errno = error;
        if (!large) raise_os(name);
    }
    raise_os(name);
}

std::shared_ptr<Region> Region::attach(int given) {
    const int fd = fcntl(given, F_DUPFD_CLOEXEC, 3);
    struct stat state {};
    if (fd < 0 || fstat(fd, &state) < 0) raise_os("shared memory");
    void* data = state.st_size > 0 ? map(fd, std::size_t(state.st_size)) : MAP_FAILED;
    if (data == MAP_FAILED) {
        const int error = state.st_size > 0 ? errno : EINVAL;
        close(fd);
        errno = error;
        raise_os("shared memory");
    }
    return std::shared_ptr<Region>(new Region(fd, static_cast<std::uint8_t*>(data), std::size_t(state.st_size)));
}

Region::~Region() {
    munmap(data_, size_);
    close(fd_);
}

}  // namespace netfold::host
