export { UserOut } from './fields';
