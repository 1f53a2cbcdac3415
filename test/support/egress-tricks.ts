/** URLs that must not be called, as tables: what each stands for, and how it is written. */

/** A host of a URL that means an address (or a name) inside. */
export interface HostTrick {
  what: string;
  host: string;
  /** As the guard reads it: the literal's canonical form. Absent for names. */
  address?: string;
}

const hosts = (what: string, ...rows: [host: string, address: string][]): HostTrick[] =>
  rows.map(([host, address]) => ({ what, host, address }));

/** Spellings of IPv4 addresses inside. */
const ipv4 = [
  ...hosts(
    'loopback',
    ['127.0.0.1', '127.0.0.1'],
    ['127.8.9.10', '127.8.9.10'],
    ['127.255.255.254', '127.255.255.254'],
  ),
  ...hosts('this network', ['0.0.0.0', '0.0.0.0'], ['0.1.2.3', '0.1.2.3']),
  ...hosts('decimal', ['2130706433', '127.0.0.1'], ['2852039166', '169.254.169.254'], ['0', '0.0.0.0']),
  ...hosts('octal', ['0177.0.0.1', '127.0.0.1'], ['017700000001', '127.0.0.1'], ['0300.0250.1.1', '192.168.1.1']),
  ...hosts('hex', ['0x7f000001', '127.0.0.1'], ['0x7F.0x0.0x0.0x1', '127.0.0.1'], ['0xA9FEA9FE', '169.254.169.254']),
  ...hosts('empty hex', ['0x', '0.0.0.0']),
  ...hosts('mixed', ['0177.0x0.0.1', '127.0.0.1'], ['0x7f.1', '127.0.0.1'], ['127.0x1', '127.0.0.1']),
  ...hosts('short', ['127.1', '127.0.0.1'], ['127.0.1', '127.0.0.1'], ['10.1', '10.0.0.1']),
  ...hosts('padded', ['127.00.00.01', '127.0.0.1']),
  ...hosts('trailing dot', ['127.0.0.1.', '127.0.0.1'], ['0x7f.1.', '127.0.0.1']),
  ...hosts('fullwidth digits', ['１２７.０.０.１', '127.0.0.1']),
  ...hosts(
    'ideographic dots',
    ['127。0。0。1', '127.0.0.1'],
    ['127．0．0．1', '127.0.0.1'],
    ['127｡0｡0｡1', '127.0.0.1'],
  ),
  ...hosts('circled digits', ['①②⑦.⓪.⓪.①', '127.0.0.1'], ['①⑥⑨.②⑤④.①⑥⑨.②⑤④', '169.254.169.254']),
  ...hosts('percent-encoded', ['%31%32%37.0.0.1', '127.0.0.1'], ['127%2e0%2e0%2e1', '127.0.0.1']),
  ...hosts('soft hyphen inside', ['127\u00ad.0.0.1', '127.0.0.1']),
  ...hosts('private', ['10.0.0.5', '10.0.0.5'], ['10.255.255.255', '10.255.255.255']),
  ...hosts(
    'private',
    ['172.16.0.1', '172.16.0.1'],
    ['172.31.255.255', '172.31.255.255'],
    ['192.168.1.1', '192.168.1.1'],
  ),
  ...hosts('carrier NAT', ['100.64.0.1', '100.64.0.1'], ['100.127.255.255', '100.127.255.255']),
  ...hosts('metadata in carrier NAT', ['100.100.100.200', '100.100.100.200']),
  ...hosts('link-local', ['169.254.0.1', '169.254.0.1']),
  ...hosts('metadata', ['169.254.169.254', '169.254.169.254'], ['169.254.170.2', '169.254.170.2']),
  ...hosts('protocol assignments', ['192.0.0.1', '192.0.0.1'], ['192.0.0.192', '192.0.0.192']),
  ...hosts(
    'documentation',
    ['192.0.2.1', '192.0.2.1'],
    ['198.51.100.7', '198.51.100.7'],
    ['203.0.113.9', '203.0.113.9'],
  ),
  ...hosts('6to4 relay', ['192.88.99.1', '192.88.99.1']),
  ...hosts('benchmark', ['198.18.0.1', '198.18.0.1'], ['198.19.255.255', '198.19.255.255']),
  ...hosts('multicast', ['224.0.0.1', '224.0.0.1'], ['239.255.255.250', '239.255.255.250']),
  ...hosts('reserved', ['240.0.0.1', '240.0.0.1']),
  ...hosts('broadcast', ['255.255.255.255', '255.255.255.255'], ['4294967295', '255.255.255.255']),
];

/** Spellings of IPv6 addresses inside, or whose packets end inside. */
const ipv6 = [
  ...hosts('unspecified', ['[::]', '::'], ['[0:0:0:0:0:0:0:0]', '::']),
  ...hosts('loopback', ['[::1]', '::1'], ['[0000:0000:0000:0000:0000:0000:0000:0001]', '::1']),
  ...hosts('unique-local', ['[fc00::1]', 'fc00::1'], ['[fdff:ffff::1]', 'fdff:ffff::1']),
  ...hosts('metadata, unique-local', ['[fd00:ec2::254]', 'fd00:ec2::254']),
  ...hosts('link-local', ['[fe80::1]', 'fe80::1'], ['[febf::1]', 'febf::1']),
  ...hosts('site-local', ['[fec0::1]', 'fec0::1']),
  ...hosts('v4-mapped, dotted', ['[::ffff:127.0.0.1]', '::ffff:7f00:1'], ['[::FFFF:10.0.0.5]', '::ffff:a00:5']),
  ...hosts('v4-mapped, hex', ['[::ffff:7f00:1]', '::ffff:7f00:1'], ['[::ffff:a9fe:a9fe]', '::ffff:a9fe:a9fe']),
  ...hosts('v4-mapped, long', ['[0:0:0:0:0:ffff:127.0.0.1]', '::ffff:7f00:1']),
  ...hosts('v4-compatible', ['[::127.0.0.1]', '::7f00:1'], ['[::8.8.8.8]', '::808:808']),
  ...hosts('v4-translated', ['[::ffff:0:127.0.0.1]', '::ffff:0:7f00:1']),
  ...hosts('NAT64', ['[64:ff9b::127.0.0.1]', '64:ff9b::7f00:1'], ['[64:ff9b::a9fe:a9fe]', '64:ff9b::a9fe:a9fe']),
  ...hosts('local NAT64', ['[64:ff9b:1::10.0.0.5]', '64:ff9b:1::a00:5']),
  ...hosts('local NAT64 of a /56', ['[64:ff9b:1:a:0:500::]', '64:ff9b:1:a:0:500::']),
  ...hosts('6to4', ['[2002:7f00:1::]', '2002:7f00:1::'], ['[2002:a9fe:a9fe::1]', '2002:a9fe:a9fe::1']),
  ...hosts('Teredo client', ['[2001:0:4136:e378:8000:63bf:f5ff:fffa]', '2001:0:4136:e378:8000:63bf:f5ff:fffa']),
  ...hosts('Teredo server', ['[2001:0:a00:5:8000:63bf:f7f7:f7f7]', '2001:0:a00:5:8000:63bf:f7f7:f7f7']),
  ...hosts('ORCHID', ['[2001:10::1]', '2001:10::1'], ['[2001:20::1]', '2001:20::1']),
  ...hosts('benchmark', ['[2001:2::1]', '2001:2::1']),
  ...hosts('discard', ['[100::1]', '100::1']),
  ...hosts('documentation', ['[2001:db8::1]', '2001:db8::1'], ['[3fff::1]', '3fff::1']),
  ...hosts('segment routing', ['[5f00::1]', '5f00::1']),
  ...hosts('unassigned', ['[4000::1]', '4000::1']),
  ...hosts('multicast', ['[ff02::1]', 'ff02::1'], ['[ff0e::1]', 'ff0e::1']),
];

/** Addresses inside in every spelling that a parser of URLs takes. */
export const literalTricks: readonly HostTrick[] = [...ipv4, ...ipv6];

/** Names that mean this machine whatever a resolver says; refused when written where addresses are. */
export const localNames: readonly HostTrick[] = [
  ['localhost', 'localhost'],
  ['localhost in other letters', 'LocalHost'],
  ['localhost with the final dot', 'localhost.'],
  ['localhost with a soft hyphen', 'lo\u00adcalhost'],
  ['localhost with a circled letter', 'ⓛocalhost'],
  ['localhost percent-encoded', '%6cocalhost'],
  ['a name below localhost', 'a.LOCALHOST'],
  ['a name of the link', 'printer.local'],
  ['a metadata name', 'metadata.google.internal'],
].map(([what = '', host = '']) => ({ what, host }));

/** Texts that are refused wherever a URL is written, and called by nobody. `at` = host and port of a server inside. */
export const malformedTricks: readonly { what: string; url: (at: string) => string }[] = [
  { what: 'a public name as user', url: (at) => `http://example.com@${at}/` },
  { what: 'a public name as user and a port as password', url: (at) => `http://example.com:80@${at}/` },
  { what: 'two at signs', url: (at) => `http://a@example.com@${at}/` },
  { what: 'an encoded at sign in the user', url: (at) => `http://example.com%40x@${at}/` },
  { what: 'a backslash before the at sign', url: (at) => `http://${at}\\@example.com/` },
  { what: 'backslashes for slashes', url: (at) => `http:\\\\${at}\\` },
  { what: 'a tab in the host', url: (at) => `http://12\t7.0.0.1:${at.split(':')[1] ?? ''}/` },
  { what: 'a newline in the host', url: (at) => `http://12\n7.0.0.1:${at.split(':')[1] ?? ''}/` },
  { what: 'a newline in the scheme', url: (at) => `ht\ntp://${at}/` },
  { what: 'a header after a line break', url: (at) => `http://${at}/\r\nHost: example.com` },
  { what: 'a space before', url: (at) => ` http://${at}/` },
  { what: 'a zero byte', url: (at) => `http://${at}/\u0000` },
  { what: 'a fragment that looks like a host', url: (at) => `http://${at}#@example.com/` },
  { what: 'one slash', url: (at) => `http:/${at}/` },
  { what: 'no slashes', url: (at) => `http:${at}/` },
  { what: 'three slashes', url: (at) => `http:///${at}/` },
  { what: 'no scheme', url: (at) => `//${at}/` },
  { what: 'no host', url: () => 'http://' },
  { what: 'a zone', url: () => 'http://[fe80::1%25lo]/' },
  { what: 'a zone, not encoded', url: () => 'http://[::1%lo]/' },
  { what: 'an address that is too large', url: () => 'http://4294967296/' },
  { what: 'five parts', url: () => 'http://127.0.0.0.1/' },
  { what: 'a port that is too large', url: () => 'http://127.0.0.1:65536/' },
  { what: 'ftp', url: (at) => `ftp://${at}/` },
  { what: 'file', url: () => 'file:///etc/passwd' },
  { what: 'file on a host', url: (at) => `file://${at}/etc/passwd` },
  { what: 'gopher', url: (at) => `gopher://${at}/_GET%20/` },
  { what: 'a web socket', url: (at) => `ws://${at}/` },
  { what: 'unix socket', url: () => 'unix:///var/run/docker.sock' },
  { what: 'http over a unix socket', url: () => 'http+unix://%2Fvar%2Frun%2Fdocker.sock/' },
  { what: 'data', url: () => 'data:text/plain,x' },
  { what: 'javascript', url: () => 'javascript:alert(1)' },
  { what: 'blob', url: (at) => `blob:http://${at}/x` },
];

/** Names and what a name server says of them; each is refused. Those with `public` have a public address too. */
export const nameTricks = [
  { what: 'a private address only', host: 'private.test', answers: [{ a: ['10.0.0.5'] }] },
  { what: 'the loopback only', host: 'loopback.test', answers: [{ a: ['127.0.0.1'] }] },
  { what: 'the IPv6 loopback only', host: 'loopback6.test', answers: [{ aaaa: ['::1'] }] },
  { what: 'the metadata address', host: 'metadata.test', answers: [{ a: ['169.254.169.254'] }] },
  { what: 'the unspecified address', host: 'zero.test', answers: [{ a: ['0.0.0.0'] }] },
  {
    what: 'a public address before a private one',
    host: 'mixed.test',
    answers: [{ a: ['93.184.216.34', '127.0.0.1'] }],
  },
  {
    what: 'a private address before a public one',
    host: 'mixed2.test',
    answers: [{ a: ['127.0.0.1', '93.184.216.34'] }],
  },
  { what: 'a public A and a private AAAA', host: 'six.test', answers: [{ a: ['93.184.216.34'], aaaa: ['::1'] }] },
  { what: 'a private A and a public AAAA', host: 'four.test', answers: [{ a: ['127.0.0.1'], aaaa: ['2606:4700::1'] }] },
  { what: 'a mapped AAAA', host: 'mapped.test', answers: [{ aaaa: ['::ffff:127.0.0.1'] }] },
  { what: 'a NAT64 AAAA', host: 'nat64.test', answers: [{ aaaa: ['64:ff9b::7f00:1'] }] },
  { what: 'a chain of names to the loopback', host: 'chain.test', answers: [{ cname: 'link1.test' }] },
  { what: 'a chain of names that goes round', host: 'round.test', answers: [{ cname: 'round2.test' }] },
  { what: 'a name for localhost', host: 'alias.test', answers: [{ cname: 'localhost' }] },
  { what: 'no address', host: 'nothing.test', answers: [{}] },
  {
    what: 'more addresses than any honest host',
    host: 'many.test',
    answers: [{ a: Array.from({ length: 65 }, (_x, n) => `93.184.216.${String(n)}`) }],
  },
] as const;

/** Names that the chains above lead over. */
export const chainedNames = {
  'link1.test': [{ cname: 'link2.test' }],
  'link2.test': [{ cname: 'link3.test' }],
  'link3.test': [{ a: ['127.0.0.1'] }],
  'round2.test': [{ cname: 'round.test' }],
  localhost: [{ a: ['127.0.0.1'], aaaa: ['::1'] }],
} as const;

/** Where an allowed host may point that nobody follows to. `at` = host and port of a server inside, on 127.0.0.1. */
export const locationTricks: readonly { what: string; location: (at: string) => string }[] = [
  { what: 'a loopback address', location: (at) => `http://${at}/` },
  { what: 'the metadata address', location: () => 'http://169.254.169.254/latest/meta-data/' },
  { what: 'a decimal address', location: (at) => `http://2130706433:${at.split(':')[1] ?? ''}/` },
  { what: 'an IPv6 address', location: (at) => `http://[::1]:${at.split(':')[1] ?? ''}/` },
  { what: 'localhost', location: (at) => `http://localhost:${at.split(':')[1] ?? ''}/` },
  { what: 'a scheme-relative address', location: (at) => `//${at}/` },
  { what: 'backslashes for slashes', location: (at) => `\\\\${at}\\` },
  { what: 'a slash and a backslash', location: (at) => `/\\${at}/` },
  { what: 'a tab between slashes', location: (at) => `/\t/${at}/` },
  { what: 'https', location: (at) => `https://${at}/` },
  { what: 'user information', location: (at) => `http://user:word@${at}/` },
  { what: 'ftp', location: (at) => `ftp://${at}/` },
  { what: 'file', location: () => 'file:///etc/passwd' },
  { what: 'gopher', location: (at) => `gopher://${at}/_x` },
  { what: 'data', location: () => 'data:text/plain,x' },
  { what: 'javascript', location: () => 'javascript:alert(1)' },
  { what: 'a name that resolves inside', location: (at) => `http://loopback.test:${at.split(':')[1] ?? ''}/` },
];
