//! The names that people use for numbers in messages: record types, classes, response codes.

/// Types by their names.
const TYPES: [(&str, u16); 22] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("HINFO", 13),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("SRV", 33),
    ("OPT", 41),
    ("DS", 43),
    ("DNSKEY", 48),
    ("SVCB", 64),
    ("HTTPS", 65),
    ("TKEY", 249),
    ("TSIG", 250),
    ("IXFR", 251),
    ("AXFR", 252),
    ("MAILB", 253),
    ("MAILA", 254),
    ("ANY", 255),
];
/// Classes by theirs.
const CLASSES: [(&str, u16); 5] = [("IN", 1), ("CH", 3), ("HS", 4), ("NONE", 254), ("ANY", 255)];
/// Response codes by theirs, with the higher bits of an OPT record.
const RCODES: [(&str, u16); 7] = [
    ("NOERROR", 0),
    ("FORMERR", 1),
    ("SERVFAIL", 2),
    ("NXDOMAIN", 3),
    ("NOTIMP", 4),
    ("REFUSED", 5),
    ("BADVERS", 16),
];

/// The number of a type: `A`, `TYPE666` (RFC 3597 section 5).
pub fn type_number(name: &str) -> u16 {
    number(&TYPES, "TYPE", name)
}

/// The name of a type.
pub fn type_name(number: u16) -> String {
    name(&TYPES, "TYPE", number)
}

/// The number of a class: `IN`, `CLASS7`.
pub fn class_number(name: &str) -> u16 {
    number(&CLASSES, "CLASS", name)
}

/// The name of a class.
pub fn class_name(number: u16) -> String {
    name(&CLASSES, "CLASS", number)
}

/// The name of a response code.
pub fn rcode_name(number: u16) -> String {
    name(&RCODES, "RCODE", number)
}

fn number(known: &[(&str, u16)], prefix: &str, name: &str) -> u16 {
    let known = known.iter().find(|(own, _)| *own == name);
    let number = || name.strip_prefix(prefix)?.parse().ok();
    let found = known.map(|(_, number)| *number).or_else(number);
    found.unwrap_or_else(|| panic!("there is no '{name}'"))
}

fn name(known: &[(&str, u16)], prefix: &str, number: u16) -> String {
    let known = known.iter().find(|(_, own)| *own == number);
    known.map_or_else(
        || format!("{prefix}{number}"),
        |(name, _)| (*name).to_owned(),
    )
}
