/** What the workflow `delivery` and its activity are started with: the row, which holds everything else. */
export interface DeliveryInput {
  deliveryId: string;
}

/** The workflow's exported name. */
export const DELIVERY_WORKFLOW = 'delivery';
