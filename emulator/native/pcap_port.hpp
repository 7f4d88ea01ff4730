// A port whose packets come from one pcap file and go to another.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "port.hpp"

namespace netfold::host {

class PcapPort final : public Port {
   public:
    // Either may be empty. Raises OSError, or std::invalid_argument for what is no Ethernet pcap file.
    PcapPort(const std::string& rx_file, const std::string& tx_file);
    ~PcapPort() override;

    std::size_t receive(Pool& pool, std::uint32_t* out, std::size_t count) override;
    std::size_t send(Pool& pool, const std::uint32_t* mbufs, std::size_t count) override;
    int descriptor() const override { return -1; }
    bool arm() override { return at_ == input_.size(); }
    void disarm(bool) override {}

    // Writes packets as send() does, without taking them from the caller.
    void write(Pool& pool, const std::uint32_t* mbufs, std::size_t count);
    void flush();
    bool at_end() const { return at_ == input_.size(); }

   private:
    std::uint32_t word(std::size_t at) const;

    std::vector<std::uint8_t> input_;
    std::size_t at_ = 0;
    bool swapped_ = false;
    std::FILE* output_ = nullptr;
    std::string tx_file_;
};

}  // namespace netfold::host
