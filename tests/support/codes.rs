//! Mnemonics of record types, classes and response codes.

/// Mnemonics of record types.
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
/// Mnemonics of classes.
const CLASSES: [(&str, u16); 5] = [("IN", 1), ("CH", 3), ("HS", 4), ("NONE", 254), ("ANY", 255)];
/// Mnemonics of response codes, including the extended ones of OPT records.
const RCODES: [(&str, u16); 7] = [
    ("NOERROR", 0),
    ("FORMERR", 1),
    ("SERVFAIL", 2),
    ("NXDOMAIN", 3),
    ("NOTIMP", 4),
    ("REFUSED", 5),
    ("BADVERS", 16),
];

/// Returns the number of a type: `A`, `TYPE666` (RFC 3597 section 5).
pub fn type_number(name: &str) -> u16 {
    number(&TYPES, "TYPE", name)
}

/// Returns the mnemonic of a type.
pub fn type_name(number: u16) -> String {
    name(&TYPES, "TYPE", number)
}

/// Returns the number of a class: `IN`, `CLASS7`.
pub fn class_number(name: &str) -> u16 {
    number(&CLASSES, "CLASS", name)
}

/// Returns the mnemonic of a class.
pub fn class_name(number: u16) -> String {
    name(&CLASSES, "CLASS", number)
}

/// Returns the mnemonic of a response code.
pub fn rcode_name(number: u16) -> String {
    name(&RCODES, "RCODE", number)
}

fn number(mnemonics: &[(&str, u16)], prefix: &str, name: &str) -> u16 {
    let entry = mnemonics.iter().find(|(own, _)| *own == name);
    let generic = || name.strip_prefix(prefix)?.parse().ok();
    let number = entry.map(|(_, number)| *number).or_else(generic);
    number.unwrap_or_else(|| panic!("unknown mnemonic '{name}'"))
}

fn name(mnemonics: &[(&str, u16)], prefix: &str, number: u16) -> String {
    let entry = mnemonics.iter().find(|(_, own)| *own == number);
    entry.map_or_else(
        || format!("{prefix}{number}"),
        |(name, _)| (*name).to_owned(),
    )
}
