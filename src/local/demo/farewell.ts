import type { Scene } from './stage';

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Three commands that work as they stand, while this demo serves. */
function commands({ local, apiKey, at, agentId, webhook }: Scene, lastRun: string): string[] {
  const authorization = `-H ${quoted(`Authorization: Bearer ${apiKey}`)}`;
  const url = (path: string): string => quoted(`${local.baseUrl}${at}${path}`);
  const body = { messages: [{ role: 'user', content: 'Call get_order with order_id ord_7.' }] };
  const json = `-H ${quoted('Content-Type: application/json')} -d ${quoted(JSON.stringify(body))}`;
  return [
    `curl -s ${url(`/agents/${agentId}/generate?wait=true`)} ${authorization} ${json}`,
    `curl -s ${url(`/generations/${lastRun}/transcript`)} ${authorization}`,
    `curl -s ${url(`/webhook-deliveries?webhook_id=${webhook.id}`)} ${authorization}`,
  ];
}

/** Prints where everything is and how to go on by hand. */
export function sayFarewell(scene: Scene, lastRun: string): void {
  const { report, local, email } = scene;
  report.heading('All of it worked.');
  report.fact('API', `${local.baseUrl} (to browse: ${local.baseUrl}/docs)`);
  report.fact('Temporal UI', local.temporalUiUrl ?? `none; the server is ${local.temporalAddress}`);
  report.fact('mailbox', `${local.baseUrl}/dev/mailbox?to=${encodeURIComponent(email)}`);
  report.fact('output', local.logs);
  report.heading('Go on by hand:');
  for (const command of commands(scene, lastRun)) report.line(`\n${command}`);
}
