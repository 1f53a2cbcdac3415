import type { Sequelize } from 'sequelize';

/** What a migration gets. */
export interface Step {
  context: Sequelize;
}

/** Runs several statements in one transaction: a migration is applied whole or not at all. */
export async function runSql(context: Sequelize, sql: string): Promise<void> {
  await context.transaction(async (transaction) => {
    await context.query(sql, { transaction });
  });
}
