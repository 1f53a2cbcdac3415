import { DataTypes, Model } from 'sequelize';
import type { InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';

/** Endpoints of a project, inactive ones included, on every plan. Spec: Webhooks, rule 3. */
export const WEBHOOKS_MAX = 20;

/** An endpoint of a customer. */
export class Webhook extends Model<InferAttributes<Webhook>, InferCreationAttributes<Webhook>> {
  declare id: string;
  declare projectId: string;
  declare url: string;
  /** Exact names and wildcards, without duplicates. */
  declare events: string[];
  declare description: string | null;
  declare active: boolean;
  /** Which key the secret is encrypted under. */
  declare secretKeyId: string;
  /** Nonce, tag and ciphertext. */
  declare secretData: Buffer;
  declare createdAt: Date;
  declare updatedAt: Date;
}

Webhook.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: { type: DataTypes.TEXT, allowNull: false },
    url: { type: DataTypes.TEXT, allowNull: false },
    events: { type: DataTypes.ARRAY(DataTypes.TEXT), allowNull: false },
    description: { type: DataTypes.TEXT },
    active: { type: DataTypes.BOOLEAN, allowNull: false },
    secretKeyId: { type: DataTypes.TEXT, allowNull: false },
    secretData: { type: DataTypes.BLOB, allowNull: false },
    createdAt: { type: DataTypes.DATE(3), allowNull: false },
    updatedAt: { type: DataTypes.DATE(3), allowNull: false },
  },
  { sequelize: db, modelName: 'webhook', tableName: 'webhooks', underscored: true, timestamps: false },
);

export type DeliveryStatus = 'pending' | 'success' | 'failed';

/**
 * One event on its way to one webhook, as reads see it. Rows are written by statements of their own (`deliveries.ts`,
 * `attempt.ts`), which also keep the columns that are nobody's to see: the claim of the first attempt and the run's mark.
 */
export class Delivery extends Model<InferAttributes<Delivery>, InferCreationAttributes<Delivery>> {
  declare id: string;
  declare projectId: string;
  declare webhookId: string;
  declare eventId: string;
  declare eventType: string;
  declare status: DeliveryStatus;
  /** Status of the last attempt's answer; null when there was none. */
  declare statusCode: number | null;
  /** Attempts made and counted. */
  declare attempts: number;
  /** When the next one is planned; null once settled. */
  declare nextAttemptAt: Date | null;
  declare lastAttemptAt: Date | null;
  /** Beginning of the last answer's body, or the transport error. */
  declare responseBody: string | null;
  declare createdAt: Date;
  declare updatedAt: Date;
}

Delivery.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: { type: DataTypes.TEXT, allowNull: false },
    webhookId: { type: DataTypes.TEXT, allowNull: false },
    eventId: { type: DataTypes.TEXT, allowNull: false },
    eventType: { type: DataTypes.TEXT, allowNull: false },
    status: { type: DataTypes.TEXT, allowNull: false },
    statusCode: { type: DataTypes.INTEGER },
    attempts: { type: DataTypes.INTEGER, allowNull: false },
    nextAttemptAt: { type: DataTypes.DATE(3) },
    lastAttemptAt: { type: DataTypes.DATE(3) },
    responseBody: { type: DataTypes.TEXT },
    createdAt: { type: DataTypes.DATE(3), allowNull: false },
    updatedAt: { type: DataTypes.DATE(3), allowNull: false },
  },
  { sequelize: db, modelName: 'delivery', tableName: 'webhook_deliveries', underscored: true, timestamps: false },
);
