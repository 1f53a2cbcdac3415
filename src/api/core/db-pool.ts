import { Sequelize } from 'sequelize';
import { useQuickTimestamps } from './timestamps';

useQuickTimestamps();

/** How many connections a pool has now. */
export interface PoolUse {
  used: number;
  idle: number;
  /** Callers that wait for one. */
  waiting: number;
  max: number;
}

/** What the pool's own library tells; the ORM has it under a type of its own. */
interface Pool {
  using: number;
  available: number;
  waiting: number;
  maxSize: number;
}

/** How the pool of a database is used now. */
export function poolUse(database: Sequelize): PoolUse {
  const { pool } = database.connectionManager as unknown as { pool: Pool };
  return { used: pool.using, idle: pool.available, waiting: pool.waiting, max: pool.maxSize };
}

/** A pool of connections to the database at `url`; at most `poolMax` of them. */
export function openDatabase(url: string, poolMax: number): Sequelize {
  return new Sequelize(url, {
    dialect: 'postgres',
    logging: false,
    define: { underscored: true, timestamps: false },
    pool: { max: poolMax, min: 0, idle: 30_000, acquire: 15_000 },
    dialectOptions: { application_name: 'svc', statement_timeout: 60_000, keepAlive: true },
  });
}
