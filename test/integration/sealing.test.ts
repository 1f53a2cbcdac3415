import { isSealed, newSeal, plain, sealOfRow } from '../../src/api/generations/sealing';

const id = 'gen_1';

test('a sealed value holds nothing in the clear and opens at its place only', () => {
  const { seal, key } = newSeal('none', id);
  const text = seal.seal('input', [{ role: 'user', content: 'hello' }]);
  expect(text).not.toContain('hello');
  const stored: unknown = JSON.parse(text);
  expect(isSealed(stored)).toBe(true);
  expect(seal.open('input', stored)).toEqual([{ role: 'user', content: 'hello' }]);
  expect(() => seal.open('turn', stored)).toThrow(expect.objectContaining({ code: 'GENERATION_FAILED' }));
  expect(seal.seal('input', 1)).not.toBe(seal.seal('input', 1));
  const row = { content_mode: 'none' as const, key_id: key?.keyId ?? null, key_data: key?.data ?? null };
  expect(sealOfRow(id, row)?.open('input', stored)).toEqual([{ role: 'user', content: 'hello' }]);
});

test('a seal of another run, one under an unknown key, and content in the clear do not open', () => {
  const { seal, key } = newSeal('none', id);
  const stored: unknown = JSON.parse(seal.seal('input', 'x'));
  const row = { content_mode: 'none' as const, key_id: key?.keyId ?? null, key_data: key?.data ?? null };
  expect(sealOfRow('gen_2', row)?.usable).toBe(false);
  const lost = sealOfRow(id, { ...row, key_id: 'deadbeef' });
  expect(lost?.usable).toBe(false);
  for (const use of [() => lost?.open('input', stored), () => lost?.seal('input', 1), () => seal.open('input', 'x')])
    expect(use).toThrow(expect.objectContaining({ code: 'GENERATION_FAILED' }));
});

test('what was removed opens as null, and without a key there is no seal', () => {
  expect(newSeal('none', id).seal.open('step/1', null)).toBeNull();
  expect(sealOfRow(id, { content_mode: 'none', key_id: null, key_data: null })).toBeNull();
});

test('in mode full content stands as it is, and no key is made', () => {
  expect(newSeal('full', id)).toEqual({ seal: plain, key: null });
  expect(JSON.parse(plain.seal('input', { sealed: 'x' }))).toEqual({ sealed: 'x' });
  expect(plain.open('input', { sealed: 'x' })).toEqual({ sealed: 'x' });
});
