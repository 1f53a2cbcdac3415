import { clientIp, networkOf } from '../../src/api/core/client-ip';
import { SecondCounts } from '../../src/api/core/second-counts';

describe('the address of a caller', () => {
  test.each<[string, { peer: string; forwarded?: string; proxies: number }, string]>([
    ['no proxy: the header says nothing', { peer: '9.9.9.9', forwarded: '1.1.1.1', proxies: 0 }, '9.9.9.9'],
    ['one proxy: whom it saw', { peer: '10.0.0.1', forwarded: '6.6.6.6, 1.1.1.1', proxies: 1 }, '1.1.1.1'],
    [
      'two proxies: the second from the right',
      { peer: '10.0.0.1', forwarded: '6.6.6.6, 1.1.1.1, 10.0.0.2', proxies: 2 },
      '1.1.1.1',
    ],
    [
      'fewer entries than proxies: the leftmost',
      { peer: '10.0.0.1', forwarded: '1.1.1.1, 2.2.2.2', proxies: 5 },
      '1.1.1.1',
    ],
    ['no header', { peer: '10.0.0.1', proxies: 1 }, '10.0.0.1'],
    ['an empty header', { peer: '10.0.0.1', forwarded: ' , ', proxies: 1 }, '10.0.0.1'],
    ['an entry that is no address', { peer: '10.0.0.1', forwarded: 'unknown', proxies: 1 }, '10.0.0.1'],
    ['an entry with a port', { peer: '10.0.0.1', forwarded: '1.1.1.1:5060', proxies: 1 }, '1.1.1.1'],
    ['IPv6 in brackets with a port', { peer: '10.0.0.1', forwarded: '[2001:db8::1]:443', proxies: 1 }, '2001:db8::1'],
    ['IPv4 within IPv6', { peer: '::ffff:9.9.9.9', proxies: 0 }, '9.9.9.9'],
    ['IPv4 within IPv6, in the header', { peer: '10.0.0.1', forwarded: '::ffff:1.1.1.1', proxies: 1 }, '1.1.1.1'],
    ['IPv4 within IPv6, in hex', { peer: '::ffff:0909:0909', proxies: 0 }, '9.9.9.9'],
    ['a closed socket', { peer: '', proxies: 0 }, ''],
  ])('%s', (_case, { peer, forwarded, proxies }, expected) => {
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
