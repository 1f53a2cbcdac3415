/** Tests in a browser: `npm run test:pages`. They need Chromium, so they are no part of `npm test`. */
const { projects, ...shared } = require('./jest.config.cjs');

const integration = projects.find(({ displayName }) => displayName === 'integration');

module.exports = {
  ...shared,
  projects: [{ ...integration, displayName: 'pages', testMatch: ['<rootDir>/test/pages/**/*.test.ts'] }],
};
