"""Networks of ns-3's own hosts around P4 switches: `netfold run` on a scenario with a [network] section."""
