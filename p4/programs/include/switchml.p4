// SwitchML's header (Sapio et al., "Scaling Distributed Machine Learning with In-Network Aggregation", NSDI 2021,
// section 4), behind Ethernet / IPv4 / UDP and before the values of wire.p4.

#ifndef NETFOLD_SWITCHML_P4
#define NETFOLD_SWITCHML_P4

#define SWITCHML_PORT 16w9002

header switchml_t {
    bit<8> job;
    bit<8> worker;          // its number in the job, 0 to 31
    bit<16> slot;           // of the job's
    bit<32> chunk;          // which part of the job's stream of values; within a slot it only grows
    bit<1> version;         // which of the slot's two copies: alternates with each use of the slot
    bit<1> result;          // from the switch
    bit<1> saturated;       // some value hit an end of int<32>
    bit<13> reserved;
}

#endif
