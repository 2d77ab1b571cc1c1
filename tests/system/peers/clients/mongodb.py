"""Resolves hosts as MongoDB's driver does, and prints the results as JSON.

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
    """Returns the answer to a TXT query. The driver parses TXT records as options."""
    try:
        return [record.to_text() for record in dns.resolver.resolve(host, "TXT")]
    except dns.resolver.NoAnswer:
        return "NODATA"
    except dns.resolver.NXDOMAIN:
        return "NXDOMAIN"


def resolve(host):
    result = {"host": host, "error": None, "txt": text_records(host)}
    try:
        uri = pymongo.uri_parser.parse_uri(f"mongodb+srv://user:secret@{host}/?replicaSet=rs0")
    except (pymongo.errors.PyMongoError, dns.exception.DNSException) as error:
        result["error"] = f"{type(error).__name__}: {error}"
        return result
    result["nodes"] = sorted(f"{name}:{port}" for name, port in uri["nodelist"])
    result["options"] = {name: value for name, value in uri["options"].items()}
    addresses = set()
    for name, _ in uri["nodelist"]:
        for answer in dns.resolver.resolve_name(name).addresses():
            addresses.add(answer)
    result["addresses"] = sorted(addresses)
    return result


def main():
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = [sys.argv[1]]
    resolver.port = int(sys.argv[2])
    resolver.search = []
    dns.resolver.default_resolver = resolver
    print(json.dumps([resolve(host) for host in sys.argv[3:]]))
    print(f"pymongo {pymongo.version}, dnspython {dns.version.version}", file=sys.stderr)


main()
