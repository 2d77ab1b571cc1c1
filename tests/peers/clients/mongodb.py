"""Resolves hosts as MongoDB's driver does, and prints what came of each as JSON.

Usage: mongodb.py ADDRESS PORT HOST…
"""

import json
import sys

import dns.exception
import dns.resolver
import pymongo
import pymongo.errors
import pymongo.uri_parser


def text_records(host):
    """Tells what a question for TXT gets; the driver takes such records for options."""
    try:
        return [record.to_text() for record in dns.resolver.resolve(host, "TXT")]
    except dns.resolver.NoAnswer:
        return "NODATA"
    except dns.resolver.NXDOMAIN:
        return "NXDOMAIN"


def look(host):
    found = {"host": host, "error": None, "txt": text_records(host)}
    try:
        uri = pymongo.uri_parser.parse_uri(f"mongodb+srv://user:secret@{host}/?replicaSet=rs0")
    except (pymongo.errors.PyMongoError, dns.exception.DNSException) as error:
        found["error"] = f"{type(error).__name__}: {error}"
        return found
    found["nodes"] = sorted(f"{name}:{port}" for name, port in uri["nodelist"])
    found["options"] = {name: value for name, value in uri["options"].items()}
    addresses = set()
    for name, _ in uri["nodelist"]:
        for answer in dns.resolver.resolve_name(name).addresses():
            addresses.add(answer)
    found["addresses"] = sorted(addresses)
    return found


def main():
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = [sys.argv[1]]
    resolver.port = int(sys.argv[2])
    resolver.search = []
    dns.resolver.default_resolver = resolver
    print(json.dumps([look(host) for host in sys.argv[3:]]))
    print(f"pymongo {pymongo.version}, dnspython {dns.version.version}", file=sys.stderr)


main()
