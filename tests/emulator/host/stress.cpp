// Rings, pools and links between threads, for ThreadSanitizer: it reports every access that is not ordered, also
// when this machine happens to order it. Compiled and run by test_host_ordering.py.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "pool.hpp"
#include "ring.hpp"
#include "shm_port.hpp"

// region.cpp reports errors to Python, which is not there.
namespace netfold::host {
void raise_os(const std::string& what) { throw std::runtime_error(what); }
std::shared_ptr<Region> Region::create(std::size_t size, const std::string& name, bool) {
    const int fd = memfd_create(name.c_str(), 0);
    if (fd < 0 || ftruncate(fd, off_t(size)) < 0) raise_os(name);
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return std::shared_ptr<Region>(new Region(fd, static_cast<std::uint8_t*>(data), size));
}
std::shared_ptr<Region> Region::attach(int) { throw std::logic_error("not used"); }
Region::~Region() {
    munmap(data_, size_);
    close(fd_);
}
}  // namespace netfold::host

using namespace netfold::host;

namespace {

void check(bool fine, const char* what) {
    if (fine) return;
    std::printf("wrong: %s\n", what);
    std::_Exit(1);
}

void ring(std::uint32_t producers, std::uint32_t size, std::uint32_t burst, std::uint32_t each) {
    const auto r = Ring::create(size, producers > 1, "ring", false);
    std::vector<std::thread> threads;
    for (std::uint32_t p = 0; p < producers; ++p) {
        threads.emplace_back([&, p] {
            std::vector<std::uint32_t> numbers(burst);
            for (std::uint32_t at = 0; at < each;) {
                const std::uint32_t n = std::min(burst, each - at);
                for (std::uint32_t i = 0; i < n; ++i) numbers[i] = p << 24 | (at + i);
                const std::size_t done = r->enqueue(numbers.data(), n, false);
                if (!done) std::this_thread::yield();
                at += std::uint32_t(done);
            }
        });
    }
    std::vector<std::uint32_t> next(producers), got(size);
    for (std::uint64_t left = std::uint64_t{each} * producers; left > 0;) {
        const std::size_t n = r->dequeue(got.data(), size);
        if (!n) std::this_thread::yield();
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t p = got[i] >> 24;
            check(p < producers && (got[i] & 0xffffff) == next[p]++, "a number was lost, repeated or out of order");
        }
        left -= n;
    }
    for (auto& t : threads) t.join();
}

void pool(int threads_wanted, int rounds) {
    const auto p = Pool::create(64, 64, "pool", false);
    std::vector<std::thread> threads;
    for (int k = 0; k < threads_wanted; ++k) {
        threads.emplace_back([&, k] {
            std::uint32_t state = std::uint32_t(k) * 7919 + 1;
            const auto random = [&state](std::uint32_t below) {
                state = state * 1664525 + 1013904223;
                return (state >> 16) % below;
            };
            std::vector<std::uint32_t> held;
            for (int i = 0; i < rounds; ++i) {
                std::uint32_t taken[8];
                const std::uint32_t n = random(9);
                if (p->alloc(taken, n)) {
                    for (std::uint32_t j = 0; j < n; ++j) {
                        std::memcpy(p->data(taken[j]), &k, sizeof k);
                        held.push_back(taken[j]);
                    }
                }
                for (const std::uint32_t h : held) check(std::memcmp(p->data(h), &k, sizeof k) == 0, "two had one mbuf");
                const std::size_t c = random(std::uint32_t(held.size()) + 1);
                p->release(held.data() + held.size() - c, c);
                held.resize(held.size() - c);
            }
            p->release(held.data(), held.size());
        });
    }
    for (auto& t : threads) t.join();
    std::uint32_t all[64];
    check(p->in_use() == 0 && p->alloc(all, 64), "mbufs were lost");
}

void link(std::uint32_t count) {
    int sockets[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
    const auto memory = ShmPort::create_link(8, 64, "link", false);
    ShmPort a(memory, 0, sockets[0]), b(memory, 1, sockets[1]);
    std::thread sender([&] {
        const auto p = Pool::create(64, 64, "near", false);
        for (std::uint32_t at = 0; at < count;) {
            std::uint32_t mbufs[3];
            const std::uint32_t n = std::min(3u, count - at);
            check(p->alloc(mbufs, n), "alloc");
            for (std::uint32_t i = 0; i < n; ++i) {
                const std::uint32_t number = at + i;
                p->mbuf(mbufs[i]).data_len = 64;
                std::memcpy(p->data(mbufs[i]), &number, sizeof number);
            }
            const std::size_t sent = a.send(*p, mbufs, n);
            p->release(mbufs + sent, n - sent);
            if (!sent) std::this_thread::yield();
            at += std::uint32_t(sent);
        }
    });
    const auto p = Pool::create(64, 64, "far", false);
    for (std::uint32_t next = 0; next < count;) {
        std::uint32_t mbufs[8];
        const std::size_t n = b.receive(*p, mbufs, 8);
        for (std::size_t i = 0; i < n; ++i) {
            check(std::memcmp(p->data(mbufs[i]), &next, sizeof next) == 0, "a frame was lost, repeated or out of order");
            ++next;
        }
        p->release(mbufs, n);
        if (!n) check(wait({&b}, {}, 30'000'000'000), "a wake-up was lost");
    }
    sender.join();
}

}  // namespace

int main() {
    ring(1, 64, 3, 50000);
    ring(1, 1024, 700, 50000);
    ring(3, 64, 3, 20000);
    ring(3, 1024, 200, 50000);
    ring(4, 8, 1, 10000);
    pool(3, 20000);
    link(30000);
}
