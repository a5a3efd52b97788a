export type { App, Pipeline } from './app.ts'
export { openApp } from './app.ts'
export type { Config } from './config.ts'
export { loadConfig } from './config.ts'
export { PosthornError } from './core/errors.ts'
export { fatal, HandlerError, infrastructure, retryAfter, unavailable } from './core/handler-errors.ts'
export type { Notice } from './core/notice.ts'
export type { Notification } from './core/notification.ts'
export type {
  HandledEvent,
  HandledRecord,
  Handler,
  HandlerContext,
  RecordContext,
  RecordHandler,
} from './engines/engine.ts'
export type { ConsumerHandle, ConsumerOptions } from './library/consumers.ts'
export type { EndpointFilter, Endpoints, ShownEndpoint, ShownEndpointStats } from './library/endpoints.ts'
export type { HandlerEntry, HandlerTable } from './library/handler-table.ts'
export { defineHandlers } from './library/handler-table.ts'
export type {
  BreakerOption,
  DurationOption,
  EndpointChangeOptions,
  EndpointOptions,
  HandleOptions,
  PosthornOptions,
  RetryOption,
} from './library/options.ts'
export { openPosthorn, type Posthorn, type ShownStatus } from './library/posthorn.ts'
export type {
  CancelFilterOptions,
  Deliveries,
  DeliveryFilterOptions,
  EventFilterOptions,
  Events,
  ShownDelivery,
  ShownDeliveryWithLog,
  ShownEvent,
  ShownEventSummary,
  ShownPage,
} from './library/records.ts'
export type { Handle } from './library/registrations.ts'
export type { ReplayFilterOptions, ReplayOptions, Replays, ShownPreview, ShownReplay } from './library/replays.ts'
export type { BatchEvent, SendOptions, Sent } from './library/sending.ts'
