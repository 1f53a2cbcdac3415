import {
  createEgressPolicy,
  EgressListError,
  isPublicAddress,
  parseAllowList,
  parseCidrs,
} from '../../src/api/core/egress';

const policyOf = (allowed = '', denied = ''): ReturnType<typeof createEgressPolicy> =>
  createEgressPolicy({ allowedHosts: parseAllowList(allowed), deniedCidrs: parseCidrs(denied) });

describe('public addresses', () => {
  test.each([
    '1.1.1.1',
    '8.8.8.8',
    '100.63.255.255',
    '100.128.0.0',
    '126.255.255.255',
    '128.0.0.1',
    '172.15.255.255',
    '172.32.0.0',
    '192.167.255.255',
    '192.169.0.0',
    '198.17.255.255',
    '198.20.0.0',
    '223.255.255.255',
    '2606:4700:4700::1111',
    '2a00:1450:4001:81b::200e',
    '::ffff:8.8.8.8',
    '::ffff:808:808',
    '64:ff9b::8.8.8.8',
    '64:ff9b:1::808:808',
    '2002:808:808::1',
    // Teredo with the server 65.54.227.120 and the client 8.8.8.8, inverted.
    '2001:0:4136:e378:8000:63bf:f7f7:f7f7',
  ])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  test.each([
    ['this network', '0.0.0.0'],
    ['this network', '0.1.2.3'],
    ['private', '10.0.0.5'],
    ['private', '10.255.255.255'],
    ['carrier NAT', '100.64.0.1'],
    ['carrier NAT', '100.127.255.255'],
    ['loopback', '127.0.0.1'],
    ['loopback', '127.255.255.254'],
    ['link-local, cloud metadata', '169.254.169.254'],
    ['private', '172.16.0.1'],
    ['private', '172.31.255.255'],
    ['protocol assignments', '192.0.0.8'],
    ['documentation', '192.0.2.1'],
    ['6to4 relay', '192.88.99.1'],
    ['private', '192.168.1.1'],
    ['benchmarking', '198.18.0.1'],
    ['benchmarking', '198.19.255.255'],
    ['documentation', '198.51.100.7'],
    ['documentation', '203.0.113.9'],
    ['multicast', '224.0.0.1'],
    ['multicast', '239.255.255.250'],
    ['reserved', '240.0.0.1'],
    ['broadcast', '255.255.255.255'],
    ['unspecified', '::'],
    ['loopback', '::1'],
    ['link-local', 'fe80::1'],
    ['link-local with a zone', 'fe80::1%eth0'],
    ['any address with a zone', '2606:4700::1%eth0'],
    ['unique-local', 'fc00::1'],
    ['unique-local, cloud metadata', 'fd00:ec2::254'],
    ['site-local', 'fec0::1'],
    ['multicast', 'ff02::1'],
    ['documentation', '2001:db8::1'],
    ['documentation', '3fff::1'],
    ['discard', '100::1'],
    ['unassigned', '4000::1'],
    ['mapped loopback', '::ffff:127.0.0.1'],
    ['mapped private', '::ffff:a00:1'],
    ['compatible loopback', '::127.0.0.1'],
    ['compatible public', '::808:808'],
    ['translated (SIIT)', '::ffff:0:127.0.0.1'],
    ['NAT64 of loopback', '64:ff9b::127.0.0.1'],
    ['NAT64 of metadata', '64:ff9b::a9fe:a9fe'],
    ['local NAT64 of private', '64:ff9b:1::10.0.0.5'],
    ['local NAT64 of another layout', '64:ff9b:1:a00:0:500:808:808'],
    ['6to4 of private', '2002:a00:5::1'],
    ['6to4 of loopback', '2002:7f00:1::'],
    ['Teredo with a private client', '2001:0:4136:e378:8000:63bf:f5ff:fffa'],
    ['Teredo with a private server', '2001:0:a00:5:8000:63bf:f7f7:f7f7'],
    ['no address', 'example.com'],
    ['a short spelling', '127.1'],
    ['an octal spelling', '0177.0.0.1'],
    ['nothing', ''],
  ])('%s: %s is not', (_kind, address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  test('denied ranges are refused beside the list, in every wrapping', () => {
    const denied = parseCidrs('8.8.8.0/24, 2606:4700::/32');
    for (const address of ['8.8.8.8', '::ffff:8.8.8.8', '64:ff9b::808:808', '2002:808:808::1', '2606:4700::1'])
      expect([address, isPublicAddress(address, denied)]).toEqual([address, false]);
    expect(isPublicAddress('8.8.9.8', denied)).toBe(true);
  });
});

test('a denied range written as IPv4-mapped denies the IPv4 one', () => {
  const denied = parseCidrs('::ffff:8.8.8.0/120,::ffff:9.9.9.9');
  for (const address of ['8.8.8.8', '::ffff:8.8.8.8', '64:ff9b::808:808', '9.9.9.9'])
    expect([address, isPublicAddress(address, denied)]).toEqual([address, false]);
  expect(isPublicAddress('8.8.9.8', denied)).toBe(true);
});

describe('lists in the settings', () => {
  test('each form is read', () => {
    expect(parseAllowList(' Example.COM , mail.test:8443,*.Corp.test,10.0.0.0/8,127.0.0.1,[::1]:80 ')).toEqual([
      { kind: 'host', host: 'example.com', port: null },
      { kind: 'host', host: 'mail.test', port: 8443 },
      { kind: 'suffix', suffix: 'corp.test' },
      expect.objectContaining({ kind: 'range', port: null }),
      expect.objectContaining({ kind: 'range', port: null }),
      expect.objectContaining({ kind: 'range', port: 80 }),
    ]);
  });

  test('an empty list is empty', () => {
    expect(parseAllowList('')).toEqual([]);
    expect(parseAllowList('  ')).toEqual([]);
    expect(parseCidrs('')).toEqual([]);
  });

  test.each([
    'http://example.com',
    'example.com/path',
    'a b',
    '*',
    '*.',
    '*.*.test',
    'a.*.test',
    '*.test:80',
    '*.10.0.0.1',
    'host:0',
    'host:65536',
    'host:',
    'host:http',
    '[host]',
    '10.0.0.0/33',
    '10.0/8',
    '::/129',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '999.0.0.1',
    '0x7f.1',
    'user@host',
    'fe80::1%eth0',
    '-host',
  ])('the malformed entry %s is named', (entry) => {
    expect(() => parseAllowList(`good.test,${entry}`)).toThrow(EgressListError);
    expect(() => parseAllowList(`good.test,${entry}`)).toThrow(JSON.stringify(entry));
  });

  test('an empty entry between commas is malformed', () => {
    expect(() => parseAllowList('a.test,,b.test')).toThrow('""');
  });

  test.each(['example.com', '10.0.0.0/33', '10.1/8', 'x/8', '*.test'])('%s is no range to deny', (entry) => {
    expect(() => parseCidrs(`10.0.0.0/8,${entry}`)).toThrow(JSON.stringify(entry));
  });
});

describe('the policy', () => {
  test.each([
    ['a host', 'hook.test', '10.0.0.5', 'hook.test', 443, true],
    ['a host in other letters, with the final dot', 'hook.test', '10.0.0.5', 'HOOK.test.', 443, true],
    ['a name below a host', 'hook.test', '10.0.0.5', 'a.hook.test', 443, false],
    ['a host that ends alike', 'hook.test', '10.0.0.5', 'badhook.test', 443, false],
    ['the port', 'hook.test:8443', '10.0.0.5', 'hook.test', 8443, true],
    ['another port', 'hook.test:8443', '10.0.0.5', 'hook.test', 443, false],
    ['a name below a suffix', '*.corp.test', '10.0.0.5', 'a.b.corp.test', 443, true],
    ['the suffix itself', '*.corp.test', '10.0.0.5', 'corp.test', 443, false],
    ['a name that ends alike', '*.corp.test', '10.0.0.5', 'evilcorp.test', 443, false],
    ['an address in a range', '10.0.0.0/8', '10.1.2.3', 'any.test', 443, true],
    ['a mapped address in a range', '10.0.0.0/8', '::ffff:10.1.2.3', 'any.test', 443, true],
    ['an address out of a range', '10.0.0.0/8', '11.1.2.3', 'any.test', 443, true],
    ['a private address out of a range', '10.0.0.0/8', '192.168.0.1', 'any.test', 443, false],
    ['one address', '127.0.0.1', '127.0.0.1', 'any.test', 443, true],
    ['one address written as IPv4-mapped', '[::ffff:127.0.0.1]:80', '127.0.0.1', '127.0.0.1', 80, true],
    ['its neighbour', '127.0.0.1', '127.0.0.2', 'any.test', 443, false],
    ['one address at its port', '127.0.0.1:80', '127.0.0.1', '127.0.0.1', 80, true],
    ['one address at another port', '127.0.0.1:80', '127.0.0.1', '127.0.0.1', 81, false],
    ['an IPv6 literal', '[::1]:80', '::1', '[::1]', 80, true],
    ['nothing', '', '10.0.0.5', 'hook.test', 443, false],
  ])('%s: list "%s", %s for %s:%d is %s', (...[, list, address, host, port, expected]) => {
    expect(policyOf(list).addressAllowed(address, host, port)).toBe(expected);
  });

  test('the allow list wins over denied ranges, and only for what it names', () => {
    const policy = policyOf('8.8.8.8,dns.test', '8.8.0.0/16');
    expect(policy.addressAllowed('8.8.8.8', 'x.test', 443)).toBe(true);
    expect(policy.addressAllowed('8.8.4.4', 'x.test', 443)).toBe(false);
    expect(policy.addressAllowed('8.8.4.4', 'dns.test', 443)).toBe(true);
  });
});

describe('URLs to be stored', () => {
  test.each([
    'https://hook.test/x?y=1',
    'https://hook.test:8443/',
    'https://1.1.1.1/',
    'https://[2606:4700:4700::1111]/',
    'https://hook.test/a@b',
    'https://localhost.example.com/',
    `https://hook.test/${'a'.repeat(2_048 - 18)}`,
  ])('%.60s is accepted', (url) => {
    expect(policyOf().checkUrl(url)).toMatchObject({ ok: true });
  });

  test.each([
    'http://hook.test/x',
    'https://127.0.0.1/x',
    'https://[::ffff:10.0.0.1]/',
    'https://u:p@h.test/',
    'https://u@h.test/',
    'https://@h.test/',
    'https://h.test/#x',
    'https://h.test/#',
    'https://localhost/',
    'https://LOCALHOST./',
    'https://a.localhost/',
    'https://printer.local/',
    'https://db.internal/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0177.0.0.1/',
    'https://127.1/',
    'https://0/',
    'https://①②⑦.⓪.⓪.①/',
    'https://[::1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://169.254.169.254/latest',
    'https:hook.test',
    'https:///hook.test',
    '//hook.test/',
    'hook.test',
    '/path',
    '',
    'ftp://hook.test/',
    'javascript:alert(1)',
    'file:///etc/passwd',
    'https://h.test/a b',
    'https://h.test/\n',
    'https:\\\\h.test\\',
    'https://h.test:99999/',
    `https://hook.test/${'a'.repeat(2_048 - 17)}`,
  ])('%.60s is refused', (url) => {
    expect(policyOf().checkUrl(url)).toEqual({ ok: false, reason: expect.stringMatching(/\S/) as string });
  });

  test('http passes where it is asked for, and the allow list exempts hosts and addresses', () => {
    expect(policyOf('', '').checkUrl('http://hook.test/', { allowHttp: true })).toMatchObject({ ok: true });
    const policy = policyOf('127.0.0.1,localhost');
    expect(policy.checkUrl('http://localhost:3000/', { allowHttp: true })).toMatchObject({ ok: true });
    expect(policy.checkUrl('http://127.0.0.1:3000/', { allowHttp: true })).toMatchObject({ ok: true });
    expect(policy.checkUrl('http://127.0.0.2:3000/', { allowHttp: true })).toMatchObject({ ok: false });
    expect(policyOf('', '1.1.1.0/24').checkUrl('https://1.1.1.1/')).toMatchObject({ ok: false });
  });
});
