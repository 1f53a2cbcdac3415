export { agentDeletion } from './agents.workflow';
export { monthTurn } from './billing.workflow';
export { generation } from './generations.workflow';
export { mail } from './mail.workflow';
export { reencryption } from './reencryption.workflow';
export { projectDeletion, projectPause } from './projects.workflow';
export { delivery } from './webhooks.workflow';
export { retain, sweepExpired, sweepLost, sweepStarts } from './sweeps.workflow';
export { tracePurge } from './traces.workflow';
