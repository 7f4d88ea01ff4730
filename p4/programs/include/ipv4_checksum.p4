// The controls that verify and update an IPv4 header's checksum, and what forwarding does to a header. Included
// after headers_t (with a field ipv4) and metadata_t. Headers with options are carried unverified: their checksum
// covers bytes that no program here parses.

#ifndef NETFOLD_IPV4_CHECKSUM_P4
#define NETFOLD_IPV4_CHECKSUM_P4

#define IPV4_FIELDS(h) { h.version, h.ihl, h.dscp, h.ecn, h.length, h.identification, h.flags, h.fragment, \
    h.ttl, h.protocol, h.src, h.dst }

// One hop less. The checksum is kept right incrementally (RFC 1141), for headers with options too.
#define DECREMENT_TTL(h) \
    h.ttl = h.ttl - 1; \
    bit<17> raised = (bit<17>)h.checksum + 17w0x100; \
    h.checksum = raised[15:0] + (bit<16>)raised[16:16];

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_FIELDS(hdr.ipv4), hdr.ipv4.checksum,
                        HashAlgorithm.csum16);
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_FIELDS(hdr.ipv4), hdr.ipv4.checksum,
                        HashAlgorithm.csum16);
    }
}

#endif
