import eslint from '@eslint/js';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** Forbids imports at run time; types may cross where the pattern says so. */
const imports = (...patterns) => ({ '@typescript-eslint/no-restricted-imports': ['error', { patterns }] });
const nodeBuiltIns = {
  regex: '^(node:|fs$|crypto$|http$|path$)',
  message: 'Workflow code is deterministic: no node built-ins.',
};

export default defineConfig(
  { ignores: ['dist', 'packages/*/dist', 'node_modules', '.data', 'coverage', 'packages/sdk/src/schema.ts'] },
  eslint.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      // A test database, an empty catch of `unknown` and the like read better without it.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      'max-lines': ['error', 400],
      'max-lines-per-function': ['error', 70],
      'max-params': ['error', 4],
      complexity: ['error', 12],
      'no-console': 'error',
      'no-restricted-globals': [
        'error',
        { name: 'setInterval', message: 'Only heartbeats, keep-alives and the flushes the contract names.' },
      ],
      'no-restricted-properties': [
        'error',
        { object: 'process', property: 'env', message: 'Settings are read in core/config.ts and src/local.' },
      ],
    },
  },
  {
    files: ['src/api/core/config.ts', 'src/local/**', 'src/local.ts', 'test/**'],
    rules: { 'no-restricted-properties': 'off' },
  },
  {
    files: ['src/activities/heartbeats.ts', 'src/api/core/event-stream.ts', 'src/local/**'],
    rules: { 'no-restricted-globals': 'off' },
  },
  {
    files: ['packages/sdk/**'],
    rules: {
      ...imports(
        { regex: '^(node:|fs$|crypto$|http$|path$)', message: 'The client runs in browsers too: no node built-ins.' },
        { regex: '\\.\\./(src|\\.\\.)', message: 'The client stands alone.' },
      ),
      'no-restricted-globals': ['error', 'process', 'Buffer', 'require', 'setInterval'],
    },
  },
  {
    files: ['src/workflows/**'],
    rules: {
      ...imports(nodeBuiltIns, {
        regex: '^(\\.\\./(api|local)|zod|sequelize|express)',
        message: 'Workflows import their own folder and @temporalio/workflow only.',
      }),
      'no-restricted-globals': ['error', 'process', 'fetch', 'crypto', 'setInterval', 'Buffer', 'require'],
    },
  },
  {
    files: ['src/workflows/*.contract.ts'],
    rules: imports({
      regex: '.',
      allowTypeImports: true,
      message: 'Contracts are plain data and import nothing at run time.',
    }),
  },
  {
    files: ['src/activities/**'],
    rules: imports({
      regex: '(routes|\\.workflow|^express)$',
      message: 'Activities know neither routes nor workflow code.',
    }),
  },
  {
    files: ['test/**'],
    rules: {
      'max-lines-per-function': 'off',
      'max-lines': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      // Bodies of answers are of many shapes; a test reads what it asserts.
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
  {
    files: ['**/*.mjs', '**/*.cjs', '**/*.js'],
    languageOptions: {
      globals: {
        process: 'readonly',
        URL: 'readonly',
        module: 'writable',
        __dirname: 'readonly',
        require: 'readonly',
        console: 'readonly',
        setTimeout: 'readonly',
        AbortController: 'readonly',
        fetch: 'readonly',
        performance: 'readonly',
      },
    },
  },
);
