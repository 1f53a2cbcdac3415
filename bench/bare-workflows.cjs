/** The least that the engine can do, as the measure of what the service adds. */
const { proxyActivities } = require('@temporalio/workflow');

const { nothing } = proxyActivities({ startToCloseTimeout: '1m' });

exports.activities = async (count) => {
  for (let index = 0; index < count; index++) await nothing();
};
