import { eventTypes } from '../core/events';
import type { EventType } from '../core/events';

const resources = new Set(eventTypes.map((type) => resourceOf(type)));
const subscribable = new Set<string>([...eventTypes, ...[...resources].map((resource) => `${resource}.*`), '*']);

function resourceOf(type: EventType): string {
  return type.slice(0, type.indexOf('.'));
}

/**
 * Whether a text may stand in a webhook's `events`: an exact name of the catalog, `<resource>.*` of a resource that has
 * events, or `*`. Spec: Webhooks, rule 2.
 */
export const isSubscribable = (entry: string): boolean => subscribable.has(entry);

/**
 * The entries that match an event. Matching happens at the event, so a wildcard covers names that are added later.
 * Spec: Events, rule 4.
 */
export const entriesMatching = (type: EventType): string[] => [type, `${resourceOf(type)}.*`, '*'];

/** The entries without duplicates, in the order given. */
export const withoutDuplicates = (entries: string[]): string[] => [...new Set(entries)];
