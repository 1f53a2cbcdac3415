import { clientIp, networkOf } from '../../src/api/core/client-ip';
import { SecondCounts } from '../../src/api/core/second-counts';

describe('the address of a caller', () => {
  test.each([
    ['no proxy: the header says nothing', '9.9.9.9', '1.1.1.1', 0, '9.9.9.9'],
    ['one proxy: whom it saw', '10.0.0.1', '6.6.6.6, 1.1.1.1', 1, '1.1.1.1'],
    ['two proxies: the second from the right', '10.0.0.1', '6.6.6.6, 1.1.1.1, 10.0.0.2', 2, '1.1.1.1'],
    ['fewer entries than proxies: the leftmost', '10.0.0.1', '1.1.1.1, 2.2.2.2', 5, '1.1.1.1'],
    ['no header', '10.0.0.1', undefined, 1, '10.0.0.1'],
    ['an empty header', '10.0.0.1', ' , ', 1, '10.0.0.1'],
    ['an entry that is no address', '10.0.0.1', 'unknown', 1, '10.0.0.1'],
    ['an entry with a port', '10.0.0.1', '1.1.1.1:5060', 1, '1.1.1.1'],
    ['IPv6 in brackets with a port', '10.0.0.1', '[2001:db8::1]:443', 1, '2001:db8::1'],
    ['IPv4 within IPv6', '::ffff:9.9.9.9', undefined, 0, '9.9.9.9'],
    ['IPv4 within IPv6, in the header', '10.0.0.1', '::ffff:1.1.1.1', 1, '1.1.1.1'],
    ['IPv4 within IPv6, in hex', '::ffff:0909:0909', undefined, 0, '9.9.9.9'],
    ['a closed socket', '', undefined, 0, ''],
  ])('%s', (_case, ...[peer, forwarded, proxies, expected]) => {
    expect(clientIp(peer, forwarded, proxies)).toBe(expected);
  });

  test.each([
    ['9.9.9.9', '9.9.9.9'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::ffff', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
    ['::1', '0:0:0:0::/64'],
    ['', ''],
  ])('%s is counted under %s', (ip, key) => {
    expect(networkOf(ip)).toBe(key);
  });
});

describe('counts by the second', () => {
  test('sums what lies in the window, and forgets what has left it', () => {
    const counts = new SecondCounts(10);
    counts.add(100, 3);
    counts.add(100, 1);
    counts.add(105, 2);
    expect([counts.total(105), counts.total(109), counts.total(110), counts.total(114), counts.total(115)]).toEqual([
      6, 6, 2, 2, 0,
    ]);
    expect(counts.entries()).toEqual([]);
  });
});
