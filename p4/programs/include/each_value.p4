// EACH_VALUE(DO): DO(0) DO(1) ... DO(29), for what a program does to each of a packet's values.

#ifndef NETFOLD_EACH_VALUE_P4
#define NETFOLD_EACH_VALUE_P4

#define EACH_VALUE(DO) \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) \
    DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) \
    DO(20) DO(21) DO(22) DO(23) DO(24) DO(25) DO(26) DO(27) DO(28) DO(29)

#endif
