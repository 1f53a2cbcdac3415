import { z } from 'zod';
import type { Vendor } from './vendors';

/** Pure: what the vendors' listings of models look like. */

/** A model as a vendor lists it; what the vendor does not say is left out. */
export interface ListedModel {
  id: string;
  display_name?: string;
  vendor?: string;
  input_modalities?: string[];
  output_modalities?: string[];
  streaming?: boolean;
  lifecycle?: string;
  inference_types?: string[];
}

/** One page of a listing; `next` is what the query for the following one carries. */
export interface ListedPage {
  models: ListedModel[];
  next: Record<string, string> | null;
}

const text = z.string().min(1).max(1_000);
const texts = z.array(text).max(100);

/** An entry that does not have this shape is left out; a body without the list is no listing. */
const listOf = <Entry extends z.ZodType>(entry: Entry) =>
  z.array(z.unknown()).transform((entries) =>
    entries.flatMap((one) => {
      const parsed = entry.safeParse(one);
      return parsed.success ? [parsed.data] : [];
    }),
  );

const OpenAiListing = z.object({ data: listOf(z.object({ id: text, owned_by: text.optional().catch(undefined) })) });
const AnthropicListing = z.object({
  data: listOf(z.object({ id: text, display_name: text.optional().catch(undefined) })),
  has_more: z.boolean().optional(),
  last_id: z.string().nullish(),
});
const GoogleListing = z.object({
  models: listOf(z.object({ name: text, displayName: text.optional().catch(undefined) })).default([]),
  nextPageToken: z.string().optional(),
});
const VertexListing = z.object({
  publisherModels: listOf(z.object({ name: text, launchStage: text.optional().catch(undefined) })).default([]),
  nextPageToken: z.string().optional(),
});
const BedrockListing = z.object({
  modelSummaries: listOf(
    z.object({
      modelId: text,
      modelName: text.optional().catch(undefined),
      providerName: text.optional().catch(undefined),
      inputModalities: texts.optional().catch(undefined),
      outputModalities: texts.optional().catch(undefined),
      responseStreamingSupported: z.boolean().nullish(),
      inferenceTypesSupported: texts.optional().catch(undefined),
      modelLifecycle: z.object({ status: text }).optional().catch(undefined),
    }),
  ),
});

const lower = (words: string[]): string[] => words.map((word) => word.toLowerCase());
const lastSegment = (name: string): string => name.slice(name.lastIndexOf('/') + 1);
const tokenPage = (token: string | undefined): ListedPage['next'] =>
  token === undefined || token === '' ? null : { pageToken: token };

/** Reads a page of a vendor's listing; null when it is none. */
export const readListing = (provider: Vendor, body: unknown): ListedPage | null =>
  (readers[provider] ?? openAiPage)(body);

const readers: Partial<Record<Vendor, (body: unknown) => ListedPage | null>> = {
  anthropic: anthropicPage,
  google: googlePage,
  vertex: vertexPage,
  bedrock: bedrockPage,
};

function openAiPage(body: unknown): ListedPage | null {
  const listing = OpenAiListing.safeParse(body);
  if (!listing.success) return null;
  const models = listing.data.data.map(({ id, owned_by: vendor }) => ({
    id,
    ...(vendor === undefined ? {} : { vendor }),
  }));
  return { models, next: null };
}

function anthropicPage(body: unknown): ListedPage | null {
  const listing = AnthropicListing.safeParse(body);
  if (!listing.success) return null;
  const { data, has_more: more, last_id: last } = listing.data;
  return {
    models: data.map(({ id, display_name: name }) => ({ id, ...(name === undefined ? {} : { display_name: name }) })),
    next: more === true && last != null && last !== '' ? { after_id: last } : null,
  };
}

function googlePage(body: unknown): ListedPage | null {
  const listing = GoogleListing.safeParse(body);
  if (!listing.success) return null;
  const models = listing.data.models.map(({ name, displayName }) => ({
    id: name.replace(/^models\//, ''),
    ...(displayName === undefined ? {} : { display_name: displayName }),
  }));
  return { models, next: tokenPage(listing.data.nextPageToken) };
}

function vertexPage(body: unknown): ListedPage | null {
  const listing = VertexListing.safeParse(body);
  if (!listing.success) return null;
  const models = listing.data.publisherModels.map(({ name, launchStage }) => ({
    id: lastSegment(name),
    vendor: /^publishers\/([^/]+)\//.exec(name)?.[1] ?? 'google',
    ...(launchStage === undefined ? {} : { lifecycle: launchStage.toLowerCase() }),
  }));
  return { models, next: tokenPage(listing.data.nextPageToken) };
}

function bedrockPage(body: unknown): ListedPage | null {
  const listing = BedrockListing.safeParse(body);
  if (!listing.success) return null;
  const models = listing.data.modelSummaries.map((model) => ({
    id: model.modelId,
    ...(model.modelName === undefined ? {} : { display_name: model.modelName }),
    ...(model.providerName === undefined ? {} : { vendor: model.providerName }),
    ...(model.inputModalities === undefined ? {} : { input_modalities: lower(model.inputModalities) }),
    ...(model.outputModalities === undefined ? {} : { output_modalities: lower(model.outputModalities) }),
    ...(model.responseStreamingSupported == null ? {} : { streaming: model.responseStreamingSupported }),
    ...(model.modelLifecycle === undefined ? {} : { lifecycle: model.modelLifecycle.status.toLowerCase() }),
    ...(model.inferenceTypesSupported === undefined ? {} : { inference_types: lower(model.inferenceTypesSupported) }),
  }));
  return { models, next: null };
}
